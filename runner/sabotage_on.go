//go:build sabotage

package runner

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
)

// sabotageVariable names the step that the worker leaves out. Only a build with the tag sabotage knows it.
const sabotageVariable = "SANDBOXD_SABOTAGE"

// sabotaged says whether the worker leaves out what it does once for all its children: their own step would only find it done.
func sabotaged(name string) bool { return os.Getenv(sabotageVariable) == name }

func sabotage(steps []Step) []Step {
	name := os.Getenv(sabotageVariable)
	if name == "" {
		return steps
	}
	return slices.DeleteFunc(steps, func(s Step) bool { return s.Name == name })
}

func sabotageEnv() []string {
	return []string{sabotageVariable + "=" + os.Getenv(sabotageVariable)}
}

// sabotageFence leaves one part of a fence out: "fence.route.N" a request, "fence.rule.N" a message of the transaction, "fence.option.SOCKET.N" a socket's
// option, each counted from 0.
func sabotageFence(plan fence.Plan) fence.Plan {
	plan.Route = slices.Clone(plan.Route)
	for i := len(plan.Route) - 1; i >= 0; i-- {
		if sabotaged(fmt.Sprint("fence.route.", i)) {
			plan.Route = slices.Delete(plan.Route, i, i+1)
		}
	}
	var kept []byte
	for i, rest := 0, plan.Netfilter; len(rest) >= 4; i++ {
		size := int(binary.NativeEndian.Uint32(rest)+3) &^ 3
		if !sabotaged(fmt.Sprint("fence.rule.", i)) {
			kept = append(kept, rest[:size]...)
		}
		rest = rest[size:]
	}
	plan.Netfilter = kept
	plan.Sockets = slices.Clone(plan.Sockets)
	for i, socket := range plan.Sockets {
		for n := range socket.Options {
			if sabotaged(fmt.Sprint("fence.option.", socket.Name, ".", n)) {
				plan.Sockets[i].Options = slices.Delete(slices.Clone(socket.Options), n, n+1)
			}
		}
	}
	return plan
}
