#include "textflag.h"

// func cloneVM(args, size uintptr) (pid, errno uintptr)
//
// The return address is in the link register, of which each process has its own copy: what the child writes on the shared stack doesn't meet it.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-32
	MOVD	args+0(FP), R0
	MOVD	size+8(FP), R1
	MOVD	$0, R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	MOVD	$435, R8	// clone3
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, pid+16(FP)
	MOVD	ZR, errno+24(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+16(FP)
	MOVD	R0, errno+24(FP)
	RET
