#include "textflag.h"

// func cloneVM(nr, a1, a2, a3 uintptr) (pid, errno uintptr)
//
// The return address is in the link register, of which each process has its own copy: what the child writes on the shared stack doesn't meet it.
TEXT ·cloneVM(SB),NOSPLIT|NOFRAME,$0-48
	MOVD	nr+0(FP), R8
	MOVD	a1+8(FP), R0
	MOVD	a2+16(FP), R1
	MOVD	a3+24(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	SVC
	CMN	$4095, R0
	BCS	failed
	MOVD	R0, pid+32(FP)
	MOVD	ZR, errno+40(FP)
	RET
failed:
	NEG	R0, R0
	MOVD	ZR, pid+32(FP)
	MOVD	R0, errno+40(FP)
	RET
