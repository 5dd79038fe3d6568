package opensandbox

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// deleteFiles takes files away. One that isn't there is fine; a directory isn't a file.
func (f *Facade) deleteFiles(x *exchange, s site) error { return f.deleteAll(x, s, file.Delete) }

func (f *Facade) deleteAll(x *exchange, s site, operation string) error {
	for _, name := range x.r.URL.Query()["path"] {
		at, err := s.find(name)
		if err != nil {
			return err
		}
		_, err = f.work(x, s, policy.FileDelete, execd.FileWork{Order: file.Order{Operation: operation, Path: at}})
		if err != nil && !isMissing(err) {
			return err
		}
	}
	x.empty()
	return nil
}

// moveFiles gives files other names, one after the other.
func (f *Facade) moveFiles(x *exchange, s site) error {
	var wire []struct {
		Source      string `json:"src"`
		Destination string `json:"dest"`
	}
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	orders := make([]file.Order, len(wire))
	for i, pair := range wire {
		if pair.Source == "" || pair.Destination == "" {
			return badBody("src and dest", "want both")
		}
		from, err := s.find(pair.Source)
		if err != nil {
			return err
		}
		to, err := s.find(pair.Destination)
		if err != nil {
			return err
		}
		orders[i] = file.Order{Operation: file.Move, Path: from, To: to}
	}
	return f.carryOut(x, s, policy.FileMove, orders)
}

// carryOut carries orders out one after the other, and answers that all are.
func (f *Facade) carryOut(x *exchange, s site, operation policy.FileOperation, orders []file.Order) error {
	for _, order := range orders {
		if _, err := f.work(x, s, operation, execd.FileWork{Order: order}); err != nil {
			return err
		}
	}
	x.empty()
	return nil
}

// attributed reads a body that has attributes for each of some paths, and makes an order of each, by the order of the paths. adjust may change them before.
func (x *exchange) attributed(s site, template file.Order, adjust func(wireAttributes) wireAttributes) ([]file.Order, error) {
	var wire map[string]wireAttributes
	if err := x.decode(execdBody, &wire); err != nil {
		return nil, err
	}
	var orders []file.Order
	for _, name := range slices.Sorted(maps.Keys(wire)) {
		order := template
		var err error
		if order.Path, err = s.find(name); err != nil {
			return nil, err
		}
		if err := adjust(wire[name]).order(name, &order); err != nil {
			return nil, err
		}
		orders = append(orders, order)
	}
	return orders, nil
}

// setPermissions gives mode, owner and group, of those that are there.
func (f *Facade) setPermissions(x *exchange, s site) error {
	orders, err := x.attributed(s, file.Order{Operation: file.Own}, func(a wireAttributes) wireAttributes { return a })
	if err != nil {
		return err
	}
	return f.carryOut(x, s, policy.FileMode, orders)
}

// replaceTexts replaces texts in files.
func (f *Facade) replaceTexts(x *exchange, s site) error {
	var wire map[string]struct {
		Old string `json:"old"`
		New string `json:"new"`
	}
	if err := x.decode(execdBody, &wire); err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(wire))
	orders := make([]file.Order, len(names))
	for i, name := range names {
		at, err := s.find(name)
		switch {
		case err != nil:
			return err
		case wire[name].Old == "":
			return badBody("old", "%.500q: empty: want the text to be replaced", name)
		}
		orders[i] = file.Order{Operation: file.Replace, Path: at, Mode: -1, OldBytes: int64(len(wire[name].Old))}
	}
	type count struct {
		Replaced int64 `json:"replacedCount"`
	}
	counts := map[string]count{}
	for i, name := range names {
		texts := wire[name].Old + wire[name].New
		result, err := f.work(x, s, policy.FileWrite, execd.FileWork{Order: orders[i], Body: strings.NewReader(texts)})
		if err != nil {
			return err
		}
		counts[name] = count{result.Replaced}
	}
	if x.r.URL.Query().Get("verbose") == "true" {
		x.answer(http.StatusOK, counts)
		return nil
	}
	x.empty()
	return nil
}
