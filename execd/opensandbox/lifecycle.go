package opensandbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lifecycleRoutes is the lifecycle API, below /v1.
func (f *Facade) lifecycleRoutes() []route {
	return []route{
		{"POST", "/sandboxes", f.postSandbox},
		{"GET", "/sandboxes", f.listSandboxes},
		{"GET", "/sandboxes/{id}", f.withSandbox(f.getSandbox)},
		{"DELETE", "/sandboxes/{id}", f.withSandbox(f.deleteSandbox)},
		{"GET", "/sandboxes/{id}/endpoints/{port}", f.withSandbox(f.getEndpoint)},
		{"POST", "/sandboxes/{id}/renew-expiration", f.withSandbox(f.renew)},
		{"PATCH", "/sandboxes/{id}/metadata", f.withSandbox(f.patchMetadata)},
		{"GET", "/sandboxes/{id}/networkpolicy", f.withSandbox(f.getPolicy)},
		{"PUT", "/sandboxes/{id}/networkpolicy", f.withSandbox(f.putPolicy)},
		{"PATCH", "/sandboxes/{id}/networkpolicy", f.withSandbox(f.patchPolicy)},
		{"DELETE", "/sandboxes/{id}/networkpolicy", f.withSandbox(f.deletePolicy)},
		{"POST", "/sandboxes/{id}/pause", f.withSandbox(f.pause)},
		{"POST", "/sandboxes/{id}/resume", f.withSandbox(f.resume)},
		{"GET", "/sandboxes/{id}/diagnostics/{kind}", f.withSandbox(f.getDiagnostics)},
		{"POST", "/metrics/events", f.telemetry},
		{"POST", "/sandboxes/{id}/snapshots", f.withSandbox(notServed)},
		{"GET", "/snapshots", notServed},
		{"GET", "/snapshots/{id}", notServed},
		{"DELETE", "/snapshots/{id}", notServed},
		{"GET", "/templates", notServed},
		{"POST", "/templates", notServed},
		{"GET", "/templates/{id}", notServed},
		{"DELETE", "/templates/{id}", notServed},
		{"GET", "/pools", notServed},
		{"POST", "/pools", notServed},
		{"GET", "/pools/{id}", notServed},
		{"PUT", "/pools/{id}", notServed},
		{"DELETE", "/pools/{id}", notServed},
	}
}

// withSandbox finds the sandbox of the path first, which must be the caller's.
func (f *Facade) withSandbox(handle func(*exchange) error) func(*exchange) error {
	return func(x *exchange) (err error) {
		if x.box, err = f.find(x.values["id"], x.caller); err != nil {
			return err
		}
		return handle(x)
	}
}

// notServed refuses what this server doesn't have.
func notServed(x *exchange) error {
	return faultf(http.StatusNotImplemented, codeUnsupported, "%s isn't served: this server has neither snapshots nor templates nor pools", x.r.URL.Path)
}

// pause has everything in the sandbox stand still.
func (f *Facade) pause(x *exchange) error {
	x.box.changing.Lock()
	defer x.box.changing.Unlock()
	if err := f.service.PauseSandbox(x.r.Context(), x.box.inner, x.caller); err != nil {
		return conflict(err)
	}
	f.eachLayer(x.box, func(inner string) error {
		return f.service.PauseSandbox(context.WithoutCancel(x.r.Context()), inner, x.caller)
	})
	x.box.events.now("paused")
	x.answer(http.StatusAccepted, f.wire(x.box))
	return nil
}

func (f *Facade) resume(x *exchange) error {
	x.box.changing.Lock()
	defer x.box.changing.Unlock()
	if err := f.service.ResumeSandbox(x.r.Context(), x.box.inner, x.caller); err != nil {
		return conflict(err)
	}
	f.eachLayer(x.box, func(inner string) error {
		return f.service.ResumeSandbox(context.WithoutCancel(x.r.Context()), inner, x.caller)
	})
	x.box.events.now("resumed")
	x.answer(http.StatusAccepted, f.wire(x.box))
	return nil
}

// conflict has a sandbox in the wrong state be one that answers so.
func conflict(err error) error {
	no := asFault(err)
	if no.status == http.StatusConflict {
		no.Code = codeConflict
	}
	return no
}

func (f *Facade) getSandbox(x *exchange) error {
	x.answer(http.StatusOK, f.wire(x.box))
	return nil
}

// deleteSandbox answers when nothing of the sandbox is left.
func (f *Facade) deleteSandbox(x *exchange) error {
	if !f.remove(x.box) {
		return noSandbox(x.box.id)
	}
	if err := f.delete(x.box, errDeleted); err != nil {
		return err
	}
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

// telemetry is what clients say of themselves. Nothing is kept of it.
func (f *Facade) telemetry(x *exchange) error {
	if _, err := x.body(codeRequest); err != nil {
		return err
	}
	x.w.WriteHeader(http.StatusNoContent)
	return nil
}

// getEndpoint says where a port of the sandbox is, and what opens it. It is the same whether it is to go through the server or not: there is no other way.
func (f *Facade) getEndpoint(x *exchange) error {
	port, err := strconv.ParseUint(x.values["port"], 10, 16)
	if err != nil || port == 0 {
		return bad("port", "%.20q: want 1..65535", x.values["port"])
	}
	if x.r.URL.Query().Has("expires") {
		return faultf(http.StatusBadRequest, codeOption, "expires: signed addresses aren't served; the token in the headers is what opens an endpoint")
	}
	if err := f.lives(x.box); err != nil {
		return err
	}
	headers := map[string]string{"X-EXECD-ACCESS-TOKEN": x.box.execdToken.text}
	if port == portEgress {
		headers = map[string]string{"OPENSANDBOX-EGRESS-AUTH": x.box.egressToken.text}
	}
	x.answer(http.StatusOK, struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}{fmt.Sprintf("%s/v1/sandboxes/%s/proxy/%d", x.r.Host, x.box.id, port), headers})
	return nil
}

// renew sets when the sandbox ends by itself.
func (f *Facade) renew(x *exchange) error {
	var wire struct {
		ExpiresAt *time.Time `json:"expiresAt"`
	}
	if err := x.decode(codeRequest, &wire); err != nil {
		return err
	}
	switch {
	case wire.ExpiresAt == nil:
		return bad("expiresAt", "missing")
	case !wire.ExpiresAt.After(time.Now()):
		return bad("expiresAt", "%s isn't in the future", wire.ExpiresAt.Format(time.RFC3339))
	}
	if x.box.lost {
		return faultf(http.StatusConflict, codeConflict, "%v", errLost)
	}
	x.box.mu.Lock()
	f.expireAt(x.box, *wire.ExpiresAt)
	err := f.keep(x.box)
	x.box.mu.Unlock()
	if err != nil {
		return err
	}
	x.box.events.now("expires %s", wire.ExpiresAt.UTC().Format(time.RFC3339))
	x.answer(http.StatusOK, map[string]time.Time{"expiresAt": wire.ExpiresAt.UTC()})
	return nil
}

// patchMetadata merges: null removes.
func (f *Facade) patchMetadata(x *exchange) error {
	var patch map[string]*string
	if err := x.decode(codeRequest, &patch); err != nil {
		return err
	}
	for name := range patch {
		if reserved(name) {
			return bad("metadata", "%.80q: names that begin with opensandbox.io/ are reserved", name)
		}
	}
	x.box.mu.Lock()
	for name, value := range patch {
		if x.box.metadata == nil {
			x.box.metadata = map[string]string{}
		}
		if delete(x.box.metadata, name); value != nil {
			x.box.metadata[name] = *value
		}
	}
	err := f.keep(x.box)
	x.box.mu.Unlock()
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, f.wire(x.box))
	return nil
}

// wireList is a page of sandboxes.
type wireList struct {
	Items      []wireSandbox `json:"items"`
	Pagination struct {
		Page        int  `json:"page"`
		PageSize    int  `json:"pageSize"`
		TotalItems  int  `json:"totalItems"`
		TotalPages  int  `json:"totalPages"`
		HasNextPage bool `json:"hasNextPage"`
	} `json:"pagination"`
}

// The sizes of a page.
const (
	usualPage = 20
	mostPage  = 200
)

// listSandboxes gives a page of those of this owner that have one of the states and all of the metadata.
func (f *Facade) listSandboxes(x *exchange) error {
	query := x.r.URL.Query()
	page, err := number(query, "page", 1, 1, 1<<31)
	if err != nil {
		return err
	}
	size, err := number(query, "pageSize", usualPage, 1, mostPage)
	if err != nil {
		return err
	}
	wanted := readings(query.Get("metadata"))
	list := wireList{Items: []wireSandbox{}}
	p := &list.Pagination
	p.Page, p.PageSize = page, size
	for _, box := range f.of(x.caller) {
		w := f.wire(box)
		if states := query["state"]; len(states) > 0 && !slices.Contains(states, w.Status.State) || !hasAll(w.Metadata, wanted...) {
			continue
		}
		if p.TotalItems/size == page-1 {
			list.Items = append(list.Items, w)
		}
		p.TotalItems++
	}
	p.TotalPages = (p.TotalItems + size - 1) / size
	p.HasNextPage = page < p.TotalPages
	x.answer(http.StatusOK, list)
	return nil
}

// readings are what a filter of metadata may mean: names and values are encoded once more by the Python SDK, and not by the JavaScript SDK.
func readings(filter string) []url.Values {
	literal := url.Values{}
	for pair := range strings.SplitSeq(filter, "&") {
		if name, value, _ := strings.Cut(pair, "="); pair != "" {
			literal.Add(name, value)
		}
	}
	encoded, err := url.ParseQuery(filter)
	if err != nil {
		return []url.Values{literal}
	}
	return []url.Values{encoded, literal}
}

// hasAll says whether metadata is as one of the readings has it.
func hasAll(metadata map[string]string, readings ...url.Values) bool {
	return slices.ContainsFunc(readings, func(wanted url.Values) bool {
		for name, values := range wanted {
			for _, value := range values {
				if have, ok := metadata[name]; !ok || have != value {
					return false
				}
			}
		}
		return true
	})
}

// number reads a parameter that is a number in bounds.
func number(query url.Values, name string, otherwise, least, most int) (int, error) {
	if !query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < least || n > most {
		return 0, bad(name, "%.20q: want %d..%d", query.Get(name), least, most)
	}
	return n, nil
}
