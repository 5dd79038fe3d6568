package policy

// What each word looks like in canonical form: its members in the order of their names. Lists that are empty, and limits and ids that aren't set,
// are left out where the JSON of the API leaves them out.

func (w *writer) request(r Request) {
	w.open()
	w.text("action", string(r.Action))
	w.name("caller")
	w.caller(r.Caller)
	w.name("command")
	w.command(r.Command)
	if r.File != (File{}) {
		w.name("file")
		w.file(r.File)
	}
	if r.Image != (Image{}) {
		w.name("image")
		w.image(r.Image)
	}
	w.name("limits")
	w.limits(r.Limits)
	w.name("network")
	w.network(r.Network)
	w.name("program")
	w.program(r.Program)
	w.text("sandbox", r.Sandbox)
	w.name("securityContext")
	w.securityContext(r.SecurityContext)
	w.close()
}

func (w *writer) caller(c Caller) {
	w.open()
	w.number("gid", int64(c.GID))
	if c.Name != "" {
		w.text("name", c.Name)
	}
	w.number("pid", int64(c.PID))
	w.number("uid", int64(c.UID))
	w.text("via", c.Via)
	w.close()
}

func (w *writer) command(c Command) {
	w.open()
	w.texts("argv", c.Argv)
	w.text("cwd", c.Cwd)
	w.environment("env", c.Env)
	if c.LeaveChildren {
		w.flag("leaveChildren", true)
	}
	if c.ReadOnly {
		w.flag("readOnly", true)
	}
	w.base64("stdin", c.Stdin)
	if c.Terminal {
		w.flag("terminal", true)
	}
	w.close()
}

func (w *writer) file(f File) {
	w.open()
	if f.Follow {
		w.flag("follow", true)
	}
	w.someID("mode", f.Mode)
	w.text("operation", string(f.Operation))
	if f.Parents {
		w.flag("parents", true)
	}
	w.text("path", f.Path)
	if f.To != "" {
		w.text("to", f.To)
	}
	w.close()
}

func (w *writer) image(i Image) {
	w.open()
	w.text("digest", i.Digest)
	w.text("name", i.Name)
	w.close()
}

func (w *writer) program(p Program) {
	w.open()
	w.text("code", p.Code)
	w.text("cwd", p.Cwd)
	w.environment("env", p.Env)
	inputs := p.InputsBulk()
	w.name("inputs")
	w.open()
	w.number("bytes", inputs.Bytes)
	w.text("digest", inputs.Digest())
	w.close()
	w.text("language", p.Language)
	w.close()
}

func (w *writer) limits(l Limits) {
	l = l.Defaulted()
	w.open()
	w.someFraction("cpu", l.CPU)
	w.someFraction("cpuSeconds", l.CPUSeconds)
	w.someNumber("fileBytes", l.FileBytes)
	w.someNumber("memoryBytes", l.MemoryBytes)
	w.someNumber("openFiles", l.OpenFiles)
	w.someNumber("outputBytes", l.OutputBytes)
	w.someNumber("pids", l.Pids)
	w.someFraction("timeoutSeconds", l.TimeoutSeconds)
	w.close()
}

func (w *writer) network(s NetworkSpec) {
	s = s.Defaulted()
	w.open()
	if s.Datagrams {
		w.flag("datagrams", true)
	}
	w.text("defaultAction", s.DefaultAction)
	if len(s.Egress) > 0 {
		w.name("egress")
		list(w, s.Egress, func(rule EgressRule) {
			w.open()
			w.text("action", rule.Action)
			if len(rule.Ports) > 0 {
				w.name("ports")
				list(w, rule.Ports, func(port int) { w.integer(int64(port)) })
			}
			w.text("target", rule.Target)
			w.close()
		})
	}
	w.close()
}

func (w *writer) securityContext(c SecurityContext) {
	c = c.Defaulted()
	w.open()
	w.flag("allowPrivilegeEscalation", *c.AllowPrivilegeEscalation)
	w.capabilities(*c.Capabilities)
	w.flag("privileged", *c.Privileged)
	w.someText("procMount", *c.ProcMount)
	w.flag("readOnlyRootFilesystem", *c.ReadOnlyRootFilesystem)
	w.someID("runAsGroup", c.RunAsGroup)
	w.flag("runAsNonRoot", *c.RunAsNonRoot)
	w.someID("runAsUser", c.RunAsUser)
	w.name("seccompProfile")
	w.open()
	if c.SeccompProfile.LocalhostProfile != nil {
		w.someText("localhostProfile", *c.SeccompProfile.LocalhostProfile)
	}
	w.text("type", c.SeccompProfile.Type)
	w.close()
	if len(c.SupplementalGroups) > 0 {
		w.name("supplementalGroups")
		list(w, c.SupplementalGroups, w.integer)
	}
	w.close()
}

// capabilities of a defaulted context drop at least one.
func (w *writer) capabilities(c Capabilities) {
	w.name("capabilities")
	w.open()
	if len(c.Add) > 0 {
		w.texts("add", c.Add)
	}
	if len(c.Drop) > 0 {
		w.texts("drop", c.Drop)
	}
	w.close()
}

func (w *writer) effective(e Effective) {
	w.open()
	if e.ExplainDenials {
		w.flag("explainDenials", true)
	}
	w.name("limits")
	w.limits(e.Limits)
	w.name("network")
	w.network(e.Network)
	w.text("onOutputLimit", e.OnOutputLimit)
	w.name("securityContext")
	w.securityContext(e.SecurityContext)
	w.close()
}

func (w *writer) verdict(v Verdict) {
	w.open()
	w.texts("degraded", sortedSet(v.Degraded))
	w.name("rows")
	list(w, v.Rows, func(row Row) {
		w.open()
		w.text("control", row.Control)
		w.text("evidence", string(row.Evidence))
		w.text("got", row.Got)
		w.flag("held", row.Held)
		w.text("want", row.Want)
		w.close()
	})
	w.text("tier", string(v.Tier))
	w.close()
}
