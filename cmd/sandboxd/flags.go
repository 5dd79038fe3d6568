package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// flagSet is the standard one with three differences: an unknown flag names the nearest one, help goes to stdout in our own layout, and an
// error is returned for the caller to print, once.
type flagSet struct {
	*flag.FlagSet
	command command
}

func newFlagSet(c command) *flagSet {
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	return &flagSet{set, c}
}

// parse reads flags up to the first argument that isn't one, or to "--".
func (f *flagSet) parse(args []string) error {
	err := f.Parse(args)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flag.ErrHelp):
		f.print(os.Stdout)
		return errHelp
	}
	const undefined = "flag provided but not defined: -"
	if name, ok := strings.CutPrefix(err.Error(), undefined); ok {
		return fmt.Errorf("%s: unknown flag --%s%s", f.command.name, strings.TrimLeft(name, "-"), f.hint(strings.TrimLeft(name, "-")))
	}
	return fmt.Errorf("%s: %s", f.command.name, strings.ReplaceAll(err.Error(), " -", " --"))
}

// parseAround also takes flags that come after positional arguments, for commands whose arguments aren't another program's.
func (f *flagSet) parseAround(args []string) (positional []string, err error) {
	for {
		if err := f.parse(args); err != nil {
			return nil, err
		}
		if f.NArg() == 0 {
			return positional, nil
		}
		positional = append(positional, f.Arg(0))
		args = f.Args()[1:]
	}
}

func (f *flagSet) hint(name string) string {
	var known []string
	f.VisitAll(func(one *flag.Flag) { known = append(known, one.Name) })
	return strings.Replace(hint(name, known, "sandboxd help "+f.command.name), "mean ", "mean --", 1)
}

// noArguments is for commands that take flags only.
func (f *flagSet) noArguments() error {
	if f.NArg() > 0 {
		return fmt.Errorf("%s: unexpected argument %q; it takes flags only", f.command.name, f.Arg(0))
	}
	return nil
}

// isSet says whether a flag was given.
func isSet(f *flagSet, name string) bool {
	set := false
	f.Visit(func(one *flag.Flag) { set = set || one.Name == name })
	return set
}

func (f *flagSet) print(w io.Writer) {
	fmt.Fprintf(w, "usage: sandboxd %s\n\n%s\n", strings.TrimSpace(f.command.name+" "+f.command.args), sentence(f.command.about))
	first := true
	f.VisitAll(func(one *flag.Flag) {
		if first {
			fmt.Fprint(w, "\n")
			first = false
		}
		value, about := flag.UnquoteUsage(one)
		name := strings.TrimSpace("--" + one.Name + " " + value)
		if one.DefValue != "" && one.DefValue != "false" && one.DefValue != "0" && one.DefValue != "[]" {
			about += " (default " + one.DefValue + ")"
		}
		fmt.Fprintf(w, "  %-26s %s\n", name, about)
	})
	fmt.Fprint(w, f.command.more)
}

func sentence(about string) string { return strings.ToUpper(about[:1]) + about[1:] + "." }

// list is a flag that may be given more than once.
type list []string

func (l *list) String() string { return fmt.Sprint(*l) }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}
