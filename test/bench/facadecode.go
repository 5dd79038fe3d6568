package main

import (
	"encoding/json/v2"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// codeRows: a code context from the request until its interpreter waits, and cells in one. Each cell is decided, its interpreter read back, and recorded.
func codeRows(b *bench, f *facade, _ bool) error {
	box, err := f.create()
	if err != nil {
		return err
	}
	var opened, cells sample
	var context struct {
		ID string `json:"id"`
	}
	for range 10 {
		took, err := timed(func() error {
			data, err := f.ask("POST", box.execd+"/code/context", execdHeader, box.token, strings.NewReader(`{"language":"python"}`), jsonKind, http.StatusOK)
			if err == nil {
				err = json.Unmarshal(data, &context)
			}
			return err
		})
		if err != nil {
			return err
		}
		opened = append(opened, took)
	}
	body := fmt.Sprintf(`{"code":"6 * 7","context":{"id":%q,"language":"python"}}`, context.ID)
	for range b.rounds {
		begin := time.Now()
		data, err := f.ask("POST", box.execd+"/code", execdHeader, box.token, strings.NewReader(body), jsonKind, http.StatusOK)
		if err == nil && (!strings.Contains(string(data), `"text/plain":"42"`) || !strings.Contains(string(data), "execution_complete")) {
			err = fmt.Errorf("a cell: %s", data)
		}
		if err != nil {
			return err
		}
		cells = append(cells, time.Since(begin))
	}
	b.add("OpenSandbox: a cell of a code context, from the request to the end of its stream, record on disk, p50 (p99)", "–", fmt.Sprintf("%s (%s)", short(cells.p50()), short(cells.p99())), "–")
	b.add("OpenSandbox: a code context, until its interpreter waits, p50", "–", short(opened.p50()), "–")
	return box.delete()
}
