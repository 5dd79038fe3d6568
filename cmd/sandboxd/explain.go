package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// explain prints, on stderr, why a request was denied or what of the confinement was found in force.
func explain(p *program, r execd.Reply) {
	s := p.style(p.stderr)
	if r.Outcome == execd.OutcomeDenied {
		explainReasons(p.stderr, s, r.Reasons)
		return
	}
	explainVerdict(p.stderr, s, r)
}

// longestCell is how much of a value a table shows; --json has it whole.
const longestCell = 32

func explainVerdict(w io.Writer, s style, r execd.Reply) {
	if len(r.Verdict.Rows) == 0 {
		fmt.Fprintln(w, "nothing was read back")
		return
	}
	rows := [][]string{{"control", "want", "got", "held", "evidence"}}
	for _, row := range r.Verdict.Rows {
		held := s.good("yes")
		if !row.Held {
			held = s.bad("NO")
		}
		rows = append(rows, []string{row.Control, cell(row.Want), cell(row.Got), held, string(row.Evidence)})
	}
	printTable(w, s, rows)
	for _, lack := range r.Verdict.Degraded {
		fmt.Fprintf(w, "%s %s\n", s.bad("degraded"), lack)
	}
	evidence := r.Verdict.Evidence
	fmt.Fprintf(w, "%s: tier %s, %d read from the kernel, %d probed, %d reported by the launcher\n",
		heldWord(s, r.Verdict.Held), r.Verdict.Tier, evidence.Kernel, evidence.Probe, evidence.Report)
}

func heldWord(s style, held bool) string {
	if held {
		return s.good("held")
	}
	return s.bad("not held")
}

func cell(text string) string {
	if text == "" {
		return "-"
	}
	if utf8.RuneCountInString(text) <= longestCell {
		return text
	}
	return string([]rune(text)[:longestCell-1]) + "…"
}

func explainReasons(w io.Writer, s style, reasons []policy.Reason) {
	for _, reason := range reasons {
		fmt.Fprintf(w, "%s %s\n", s.bad("no"), s.bold(reason.Rule))
		fmt.Fprintf(w, "   %s\n", reason.Message)
		if reason.Field != "" {
			fmt.Fprintf(w, "   field   %s\n", reason.Field)
		}
		if reason.Change != nil {
			fmt.Fprintf(w, "   passes  %s\n", s.good(change(*reason.Change)))
		}
	}
}

// change reads as an instruction.
func change(c policy.Change) string {
	if c.Op == "remove" {
		return "remove " + c.Field
	}
	return fmt.Sprintf("%s %s to %s", c.Op, c.Field, c.Value)
}

// printTable aligns columns by what is seen, not by bytes: colours take no room.
func printTable(w io.Writer, s style, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], visible(text))
		}
	}
	for n, row := range rows {
		var line strings.Builder
		for i, text := range row {
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", width[i]-visible(text)+2))
			}
		}
		if n == 0 {
			fmt.Fprintln(w, s.quiet(line.String()))
			continue
		}
		fmt.Fprintln(w, line.String())
	}
}

// visible counts characters without the escape sequences that style adds.
func visible(text string) int {
	n, escape := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}
