#include "textflag.h"

// func cloneVM(nr, a1, a2, a3 uintptr) (pid, errno uintptr)
//
// With CLONE_VM|CLONE_VFORK both processes return from here, one after the other, on one stack: the child goes on to call other functions,
// which write over the slot of the return address. So it is kept in a register, which each process has its own copy of.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-48
	MOVQ	nr+0(FP), AX
	MOVQ	a1+8(FP), DI
	MOVQ	a2+16(FP), SI
	MOVQ	a3+24(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JCC	failed
	MOVQ	AX, pid+32(FP)
	MOVQ	$0, errno+40(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+32(FP)
	MOVQ	AX, errno+40(FP)
	RET
