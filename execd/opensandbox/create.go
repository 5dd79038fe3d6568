package opensandbox

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// leastTimeout is the shortest life that may be asked for.
const leastTimeout = time.Minute

// wireCreate is the body of POST /sandboxes.
type wireCreate struct {
	Image      *wireImage        `json:"image"`
	SnapshotID *string           `json:"snapshotId"`
	TemplateID *string           `json:"templateId"`
	Timeout    jsontext.Value    `json:"timeout"`
	Entrypoint []string          `json:"entrypoint"`
	Env        map[string]string `json:"env"`
	Metadata   map[string]string `json:"metadata"`
	Limits     map[string]string `json:"resourceLimits"`
	Requests   map[string]string `json:"resourceRequests"`
	Network    jsontext.Value    `json:"networkPolicy"`
	Secure     bool              `json:"secureAccess"`
	Platform   *wirePlatform     `json:"platform"`
	Credential *struct {
		Enabled bool `json:"enabled"`
	} `json:"credentialProxy"`
	Volumes    []jsontext.Value  `json:"volumes"`
	Lifecycle  jsontext.Value    `json:"lifecycle"`
	Extensions map[string]string `json:"extensions"`
}

type wireImage struct {
	URI  string         `json:"uri"`
	Auth jsontext.Value `json:"auth,omitzero"`
}

// order is a create that passed the checks.
type order struct {
	box     *sandbox
	expires time.Duration
	// request is what a command of the sandbox will be: what is judged before there is one.
	request policy.Request
}

// extensionContext is the extension that says what confines the sandbox's commands: a security context of Kubernetes' as JSON.
const extensionContext = "sandboxd.securityContext"

// postSandbox makes a sandbox, if policy and this host let all of it be.
func (f *Facade) postSandbox(x *exchange) error {
	body, err := x.body(codeRequest)
	if err != nil {
		return err
	}
	box, err := f.once(x.r.Context(), x, body, func() (*sandbox, error) { return f.create(x, body) })
	if err != nil {
		return err
	}
	x.w.Header().Set("Location", "/v1/sandboxes/"+box.id)
	x.answer(http.StatusAccepted, f.wire(box))
	return nil
}

// create is a create that isn't a repeated one.
func (f *Facade) create(x *exchange, body []byte) (*sandbox, error) {
	var wire wireCreate
	if err := decode(codeRequest, body, &wire); err != nil {
		return nil, err
	}
	o, err := f.config.parse(wire)
	if err != nil {
		return nil, err
	}
	o.box.caller, o.request.Caller = x.caller, x.caller
	ctx := x.r.Context()
	reasons, err := f.service.Judge(ctx, o.request)
	if err != nil {
		return nil, err
	}
	if o.box.network.datagrams && slices.ContainsFunc(reasons, func(r policy.Reason) bool { return r.Field == "network.datagrams" }) {
		// Nobody has asked for them aloud.
		o.box.network.datagrams, o.request.Network.Datagrams = false, false
		if reasons, err = f.service.Judge(ctx, o.request); err != nil {
			return nil, err
		}
	}
	if len(reasons) > 0 {
		return nil, faultf(http.StatusForbidden, codeDenied, "%s", reasonsText(reasons))
	}
	return f.make(ctx, o)
}

// make makes the sandbox of an order and has it known.
func (f *Facade) make(ctx context.Context, o order) (*sandbox, error) {
	made, err := f.service.MakeSandbox(ctx, policy.Request{
		Action: policy.ActionSandbox, Caller: o.request.Caller, Image: o.request.Image, SecurityContext: o.request.SecurityContext, Network: o.request.Network,
	})
	if err != nil {
		return nil, err
	}
	box := o.box
	box.inner, box.id, box.created = made.ID, asUUID(made.ID), made.CreatedAt
	box.execdToken, box.egressToken = newToken(), newToken()
	box.events.add(box.created, "created from image %s: held, %d rows read back; network: default %s%s",
		box.image, made.Verdict.Evidence.Kernel+made.Verdict.Evidence.Probe+made.Verdict.Evidence.Report, box.network.DefaultAction, box.network.rules())
	if err := f.enter(box); err != nil {
		return nil, errors.Join(err, f.delete(box, err))
	}
	if err := f.add(box); err != nil {
		return nil, errors.Join(err, f.delete(box, err))
	}
	if err := f.begin(box, o.expires); err != nil {
		f.remove(box)
		return nil, errors.Join(err, f.delete(box, err))
	}
	return box, nil
}

// begin lets a sandbox's time begin, and writes down that it is there.
func (f *Facade) begin(box *sandbox, expires time.Duration) error {
	box.mu.Lock()
	defer box.mu.Unlock()
	if expires > 0 {
		f.expireAt(box, box.created.Add(expires))
		box.events.now("expires %s", box.expires.UTC().Format(time.RFC3339))
	}
	return f.keep(box)
}

// parse checks a create, and makes an order of it.
func (c Config) parse(w wireCreate) (order, error) {
	if err := c.source(w); err != nil {
		return order{}, err
	}
	if err := unsupported(w); err != nil {
		return order{}, err
	}
	o := order{box: c.newSandbox()}
	o.box.image, o.box.entrypoint, o.box.env, o.box.metadata, o.box.extensions = w.Image.URI, w.Entrypoint, w.Env, maps.Clone(w.Metadata), w.Extensions
	if len(w.Entrypoint) == 0 || w.Entrypoint[0] == "" {
		return order{}, bad("entrypoint", "missing: want the program and its arguments")
	}
	for name := range w.Metadata {
		if reserved(name) {
			return order{}, bad("metadata", "%q: names that begin with opensandbox.io/ are reserved", name)
		}
	}
	var err error
	if o.expires, err = c.timeout(w.Timeout); err != nil {
		return order{}, err
	}
	if o.box.limits, err = c.resources(w); err != nil {
		return order{}, err
	}
	if text, ok := w.Extensions[extensionContext]; ok {
		if o.box.context, err = policy.ParseSecurityContext([]byte(text)); err != nil {
			return order{}, badField("extensions."+extensionContext, err)
		}
	}
	if o.box.network, err = parsePolicy(w.Network); err != nil {
		return order{}, err
	}
	spec, err := o.box.network.spec()
	if err != nil {
		return order{}, err
	}
	o.request = policy.Request{
		Action: policy.ActionExec, Image: policy.Image{Name: o.box.image}, SecurityContext: o.box.context, Network: spec, Limits: o.box.limits,
		Command: policy.Command{Argv: w.Entrypoint, Env: w.Env},
	}
	if err := o.request.Validate(); err != nil {
		return order{}, badField("", err)
	}
	return o, nil
}

// reserved says whether metadata of that name is nobody's to set.
func reserved(name string) bool { return strings.HasPrefix(name, "opensandbox.io/") }

// badField names the field of policy's own error.
func badField(where string, err error) error {
	var field *policy.FieldError
	if !errors.As(err, &field) {
		return bad(where, "%v", err)
	}
	if where == "" {
		where = field.Field
	}
	return bad(where, "%s", field.Message)
}

// source checks what the sandbox is made from: an image that is known here.
func (c Config) source(w wireCreate) error {
	sources := 0
	for _, set := range []bool{w.Image != nil, w.SnapshotID != nil, w.TemplateID != nil} {
		if set {
			sources++
		}
	}
	switch {
	case sources != 1:
		return bad("image", "want exactly one of image, snapshotId and templateId")
	case w.SnapshotID != nil:
		return faultf(http.StatusBadRequest, codeOption, "snapshotId: this server has no snapshots; create from an image")
	case w.TemplateID != nil:
		return faultf(http.StatusBadRequest, codeOption, "templateId: this server has no templates; create from an image")
	case w.Image.URI == "":
		return bad("image.uri", "missing")
	}
	if err := policy.CheckImage(w.Image.URI); err != nil {
		return badField("image.uri", err)
	}
	return nil
}

// unsupported refuses what would otherwise be ignored.
func unsupported(w wireCreate) error {
	option := func(field, why string) error { return faultf(http.StatusBadRequest, codeOption, "%s: %s", field, why) }
	switch {
	case w.Secure:
		return option("secureAccess", "not served: endpoints have tokens always")
	case w.Credential != nil && w.Credential.Enabled:
		return option("credentialProxy", "not served: no credentials are put into connections")
	case len(w.Volumes) > 0:
		return option("volumes", "not served: a sandbox has nothing of this machine but its image")
	case len(w.Lifecycle) > 0 && w.Lifecycle.Kind() != 'n':
		return option("lifecycle", "not served: run the hooks as commands")
	case w.Extensions["poolRef"] != "":
		return option("extensions.poolRef", "not served: sandboxes are made ready ahead for everybody")
	case w.Extensions["access.renew.extend.seconds"] != "":
		return option("extensions.access.renew.extend.seconds", "not served: renew-expiration is")
	case w.Platform != nil && (w.Platform.OS != "linux" || w.Platform.Arch != runtime.GOARCH):
		return option("platform", "this server has linux/"+runtime.GOARCH)
	}
	return nil
}

// timeout is how long the sandbox lives; 0: until it is deleted.
func (c Config) timeout(value jsontext.Value) (time.Duration, error) {
	if len(value) == 0 {
		return c.DefaultTimeout, nil
	}
	if value.Kind() == 'n' {
		return 0, nil
	}
	var seconds int64
	if err := json.Unmarshal(value, &seconds); err != nil {
		return 0, bad("timeout", "want seconds as an integer, or null")
	}
	const most = 10 * 365 * 86400
	if seconds < int64(leastTimeout/time.Second) || seconds > most {
		return 0, bad("timeout", "%d seconds: want %d to %d, or null for a sandbox that doesn't expire", seconds, leastTimeout/time.Second, most)
	}
	return time.Duration(seconds) * time.Second, nil
}

// resources are the limits of the sandbox's commands.
func (c Config) resources(w wireCreate) (policy.Limits, error) {
	limits := policy.Limits{MemoryBytes: c.MemoryBytes, CPU: c.CPU}
	for name, text := range w.Limits {
		number, ok := quantity(text)
		if !ok {
			return limits, bad("resourceLimits."+name, "%.40q isn't a quantity, such as 500m or 2Gi", text)
		}
		switch name {
		case "cpu":
			if limits.CPU, _ = number.Float64(); !(limits.CPU >= 0.01 && limits.CPU <= c.CPU) {
				return limits, bad("resourceLimits.cpu", "%s cores: this server gives 0.01 to %g", text, c.CPU)
			}
		case "memory":
			bytes, _ := number.Float64()
			if !(bytes >= 1<<20 && bytes <= float64(c.MemoryBytes)) {
				return limits, bad("resourceLimits.memory", "%s: this server gives 1Mi to %d bytes", text, c.MemoryBytes)
			}
			limits.MemoryBytes = int64(bytes)
		default:
			return limits, faultf(http.StatusBadRequest, codeOption, "resourceLimits.%.40s: not served; cpu and memory are", name)
		}
	}
	for name, text := range w.Requests { // one machine reserves nothing beforehand, so that limits are all there is
		if _, ok := quantity(text); !ok {
			return limits, bad("resourceRequests."+name, "%.40q isn't a quantity, such as 500m or 2Gi", text)
		}
	}
	return limits, nil
}
