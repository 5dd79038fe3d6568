package sandboxd_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	sandboxd "github.com/sandboxd/sandboxd/clients/go"
	"github.com/sandboxd/sandboxd/policy"
)

// A program with inputs and a value.
func ExampleClient_Run() {
	client := sandboxd.New(socket) // "/run/sandboxd/sandboxd.sock" where root serves
	defer client.Close()
	reply, err := client.Run(context.Background(), sandboxd.RunRequest{
		Code:   "_return = {'mean': sum(inputs) / len(inputs)}",
		Inputs: []float64{1, 2, 6},
	})
	if err != nil {
		log.Fatal(err)
	}
	var value struct {
		Mean float64 `json:"mean"`
	}
	if err := reply.Value(&value); err != nil {
		log.Fatal(err)
	}
	fmt.Println(value.Mean, reply.Outcome, reply.Verdict.Held)
	// Output: 3 ok true
}

// What policy forbids isn't run, and says why.
func ExampleReasons() {
	client := sandboxd.New(socket)
	defer client.Close()
	r := sandboxd.ExecRequest{Command: sandboxd.Command{Argv: []string{"id"}}}
	r.SecurityContext = &policy.SecurityContext{Capabilities: &policy.Capabilities{Add: []string{"SYS_ADMIN"}}}
	_, err := client.Exec(context.Background(), r)
	for _, reason := range sandboxd.Reasons(err) {
		fmt.Println(errors.Is(err, sandboxd.ErrDenied), reason.Rule, reason.Field)
	}
	// Output: true context.capabilities.add securityContext.capabilities.add
}

// Output as it comes.
func ExampleClient_StreamExec() {
	client := sandboxd.New(socket)
	defer client.Close()
	r := sandboxd.ExecRequest{Command: sandboxd.Command{Argv: []string{"sh", "-c", "echo one; echo two; exit 7"}}}
	reply, err := client.StreamExec(context.Background(), r, func(e sandboxd.Event) error {
		if e.Event == "stdout" {
			_, err := os.Stdout.Write(e.Bytes())
			return err
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("exit code", *reply.ExitCode)
	// Output:
	// one
	// two
	// exit code 7
}

// A sandbox that is kept: files go in, and what a program has left comes out.
func ExampleClient_CreateSandbox() {
	ctx := context.Background()
	client := sandboxd.New(socket)
	defer client.Close()
	box, err := client.CreateSandbox(ctx, sandboxd.SandboxRequest{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.DeleteSandbox(ctx, box.ID)
	if _, err := client.WriteFile(ctx, box.ID, "data.csv", strings.NewReader("1,2\n"), sandboxd.WriteOptions{}); err != nil {
		log.Fatal(err)
	}
	run := sandboxd.RunRequest{Code: "import os\nos.mkdir('outputs')\nopen('outputs/copy.csv', 'w').write(open('data.csv').read())"}
	run.Sandbox = box.ID
	reply, err := client.Run(ctx, run)
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range reply.Outputs.Files {
		content, err := client.ReadFile(ctx, box.ID, reply.Outputs.Directory+"/"+file.Path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s", file.Path, content)
	}
	// Output: copy.csv: 1,2
}
