package runner

import "github.com/sandboxd/sandboxd/enforcer/seccomp"

// programBytes are a program as the kernel takes it: struct sock_filter, 8 bytes an instruction.
func programBytes(program seccomp.Program) []byte {
	b := make([]byte, 0, 8*len(program))
	for _, in := range program {
		b = order.AppendUint16(b, in.Code)
		b = append(b, in.JT, in.JF)
		b = order.AppendUint32(b, in.K)
	}
	return b
}
