#include "textflag.h"

// func cloneVM(args, size uintptr) (pid, errno uintptr)
//
// With CLONE_VM|CLONE_VFORK both processes return from here, one after the other, on one stack: the child goes on to call other functions,
// which write over the slot of the return address. So it is kept in a register, which each process has its own copy of.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ	args+0(FP), DI
	MOVQ	size+8(FP), SI
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$435, AX	// clone3
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	AX, pid+16(FP)
	MOVQ	$0, errno+24(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+16(FP)
	MOVQ	AX, errno+24(FP)
	RET
