package procfs

import (
	"bytes"
	"fmt"
	"strconv"
)

// Limit is a row of /proc/PID/limits; -1 is unlimited.
type Limit struct {
	Name string `json:"name"` // of [Resources]
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Resource is a limit that the kernel knows: its short name (prlimit(1)), its number RLIMIT_* and its title in /proc/PID/limits.
type Resource struct {
	Name   string
	Number int
	Title  string
}

// Resources are all sixteen, in the kernel's order (include/uapi/asm-generic/resource.h).
var Resources = []Resource{
	{"cpu", 0, "Max cpu time"},
	{"fsize", 1, "Max file size"},
	{"data", 2, "Max data size"},
	{"stack", 3, "Max stack size"},
	{"core", 4, "Max core file size"},
	{"rss", 5, "Max resident set"},
	{"nproc", 6, "Max processes"},
	{"nofile", 7, "Max open files"},
	{"memlock", 8, "Max locked memory"},
	{"as", 9, "Max address space"},
	{"locks", 10, "Max file locks"},
	{"sigpending", 11, "Max pending signals"},
	{"msgqueue", 12, "Max msgqueue size"},
	{"nice", 13, "Max nice priority"},
	{"rtprio", 14, "Max realtime priority"},
	{"rttime", 15, "Max realtime timeout"},
}

// titleWidth is the width of the first column; titles hold blanks, so that only the column tells them from the values.
const titleWidth = 26

// ParseLimits parses /proc/PID/limits: a heading, then one row for each of [Resources] in their order.
func ParseLimits(data []byte) ([]Limit, error) {
	heading, data, ok := bytes.Cut(data, []byte{'\n'})
	if !ok || !bytes.HasPrefix(heading, []byte("Limit ")) {
		return nil, fmt.Errorf("limits: heading %q", heading)
	}
	limits := make([]Limit, 0, len(Resources))
	for line := range bytes.Lines(data) {
		line, ended := bytes.CutSuffix(line, []byte{'\n'})
		if !ended || len(line) < titleWidth || len(limits) == len(Resources) {
			return nil, fmt.Errorf("limits: line %q", line)
		}
		resource := Resources[len(limits)]
		if title := bytes.TrimRight(line[:titleWidth], " "); string(title) != resource.Title {
			return nil, fmt.Errorf("limits: %q in place of %q", title, resource.Title)
		}
		limit := Limit{Name: resource.Name}
		fields := 0
		for field := range bytes.FieldsSeq(line[titleWidth:]) {
			var err error
			switch fields {
			case 0:
				limit.Soft, err = limitValue(field)
			case 1:
				limit.Hard, err = limitValue(field)
			}
			if err != nil {
				return nil, fmt.Errorf("limits: %s: %w", resource.Name, err)
			}
			fields++
		}
		if fields < 2 || fields > 3 { // the third is the unit, which some rows lack
			return nil, fmt.Errorf("limits: line %q", line)
		}
		limits = append(limits, limit)
	}
	if len(limits) != len(Resources) {
		return nil, fmt.Errorf("limits: %d rows instead of %d", len(limits), len(Resources))
	}
	return limits, nil
}

func limitValue(field []byte) (int64, error) {
	if string(field) == "unlimited" {
		return -1, nil
	}
	n, err := strconv.ParseUint(string(field), 10, 63)
	return int64(n), err
}
