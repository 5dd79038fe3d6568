package file

import (
	"encoding/json/v2"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Main is the child: args has the order. It returns the exit status: 0, 1 with a fault in the result, 2 when it wasn't started by the daemon.
func Main(args []string) int {
	var order Order
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &order, json.RejectUnknownMembers(true)) != nil {
		return 2
	}
	// A mode is given to the very file, whatever the plan's umask; directories on the way get the usual one.
	unix.Umask(0o022)
	result := Do(order, os.NewFile(Descriptor, "content"))
	text, err := json.Marshal(result)
	if err != nil {
		return 2
	}
	if _, err := os.Stdout.Write(text); err != nil {
		return 2
	}
	if result.Fault != nil {
		return 1
	}
	return 0
}

// Do carries an order out.
func Do(o Order, content *os.File) Result {
	open := openPlace
	if o.Follow {
		open = openRoot
	}
	p, err := open(o.Base)
	if err != nil {
		return Result{Fault: faultOf(err, -1)}
	}
	defer p.close()
	result, err := p.do(o, content)
	if err != nil {
		result.Fault = faultOf(err, p.fd)
		if p.follow && result.Fault.Code == Link {
			result.Fault.Message = "a link in the path leads to itself, or is one of the kernel's own, which are never followed"
		}
	}
	return result
}

func (p *place) do(o Order, content *os.File) (Result, error) {
	if p.follow {
		return p.doFollowed(o, content)
	}
	switch o.Operation {
	case Read:
		return p.read(o, content)
	case Write:
		return p.write(o, content)
	case Stat:
		return p.stat(o)
	case Delete:
		return p.remove(o)
	case List:
		return p.list(o)
	case Mode:
		return p.mode(o)
	case Gather:
		return p.gather(o, content)
	}
	return p.unknown(o)
}

func (p *place) unknown(o Order) (Result, error) {
	return Result{}, fmt.Errorf("file: operation %q", o.Operation)
}
