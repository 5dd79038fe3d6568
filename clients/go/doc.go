// Package sandboxd is a client of a sandboxd daemon, over its unix socket or a TCP address with a token.
//
//	client := sandboxd.New("/run/sandboxd/sandboxd.sock")
//	reply, err := client.Run(ctx, sandboxd.RunRequest{Code: "_return = sum(inputs)", Inputs: []int{1, 2, 3}})
//
// A method per thing that the API can do (execd/openapi.json describes it; a test holds the two together): [Client.Exec] and [Client.Run] start a program
// and give its [Reply], [Client.StreamExec] and [Client.StreamRun] its output as it comes; [Client.DecideExec] and its like ask what policy would say;
// the rest is sandboxes, their files and networks, and proof.
//
// # Errors
//
// A program that ran to an end of its own is no error: see [Reply.ExitCode]. Everything else is, and can be told apart by [errors.Is]:
//
//	reply, err := client.Exec(ctx, request)
//	switch {
//	case errors.Is(err, sandboxd.ErrDenied):  // nothing ran; sandboxd.Reasons(err) says why
//	case errors.Is(err, sandboxd.ErrTimeout): // killed at its limit; reply has what it wrote until then
//	case errors.Is(err, sandboxd.ErrBusy):    // sandboxd.RetryAfter(err) says when to come again
//	}
//
// Behind them are two types: [*ReplyError] where there is a reply, [*Error] where the daemon had none to give.
//
// The package imports the standard library and package policy, whose types are the words of a request.
package sandboxd
