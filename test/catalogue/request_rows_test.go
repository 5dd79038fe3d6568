package catalogue

import "strings"

// requestRows are what a caller sends: C15 to C17, and how it goes away.
var requestRows = []row{
	{id: "C16", what: "an argument of a megabyte", run: []string{"PROBE", "say", strings.Repeat("x", 1<<20)}, outcome: "refused command.argv[2]"},
	{id: "C16", what: "many arguments of a megabyte together", run: strings.Fields("PROBE" + strings.Repeat(" "+strings.Repeat("x", 100_000), 12)), outcome: "refused command"},
	{id: "C16", what: "an environment of a megabyte", run: []string{"PROBE", "env"}, with: `"env":{"A":"` + strings.Repeat("x", 1<<20) + `"}`, outcome: "refused command.env.A"},
	{id: "C16", what: "NUL in an argument", raw: `{"command":{"argv":["echo","a\u0000b"]}}`, outcome: "refused command.argv[1]"},
	{id: "C16", what: "NUL in a variable", raw: `{"command":{"argv":["echo"],"env":{"A":"a\u0000b"}}}`, outcome: "refused command.env.A"},
	{id: "C16", what: "NUL in the directory", raw: `{"command":{"argv":["echo"],"cwd":"/a\u0000b"}}`, outcome: "refused command.cwd"},
	{id: "C16", what: "no argument at all (CVE-2021-4034)", raw: `{"command":{"argv":[]}}`, outcome: "refused command.argv"},
	{id: "C16", what: "no argv", raw: `{"command":{}}`, outcome: "refused command.argv"},
	{id: "C16", what: "an empty program", raw: `{"command":{"argv":[""]}}`, outcome: "refused command.argv[0]"},
	{id: "C16", what: "an empty argv inside the sandbox: the kernel puts one in", run: []string{"PROBE", "no-argv", "/bin/true"}, pod: "image: a program that doesn't go by its name"},
	{id: "C16", what: "a variable with an equals sign in its name", raw: `{"command":{"argv":["echo"],"env":{"A=B":"c"}}}`, outcome: "refused command.env[\"A=B\"]"},
	{id: "C16", what: "what isn't UTF-8", raw: "{\"command\":{\"argv\":[\"\xff\"]}}", outcome: "refused command.argv[0]"},
	{id: "C16", what: "a field in another case", raw: `{"command":{"argv":["true"]},"securityContext":{"Privileged":false}}`, outcome: "refused securityContext.Privileged"},
	{id: "C16", what: "a field twice", raw: `{"command":{"argv":["true"]},"limits":{"pids":1,"pids":2}}`, outcome: "refused limits.pids"},
	{id: "C17", what: "a preloaded library", run: []string{"PROBE", "env"}, with: `"env":{"LD_PRELOAD":"/work/x.so"}`, outcome: "denied command.env.LD_PRELOAD"},
	{id: "C17", what: "another library path", run: []string{"PROBE", "env"}, with: `"env":{"LD_LIBRARY_PATH":"/work"}`, outcome: "denied command.env.LD_LIBRARY_PATH"},
	{id: "C17", what: "modules of the C library", run: []string{"PROBE", "env"}, with: `"env":{"GCONV_PATH":"/work"}`, outcome: "denied command.env.GCONV_PATH"},
	{id: "C17", what: "a start-up file of the shell", run: []string{"PROBE", "env"}, with: `"env":{"BASH_ENV":"/work/x"}`, outcome: "denied command.env.BASH_ENV"},
	{id: "C17", what: "a start-up file of Python", run: []string{"PROBE", "env"}, with: `"env":{"PYTHONSTARTUP":"/work/x"}`, outcome: "denied command.env.PYTHONSTARTUP"},
	{id: "C17", what: "another proxy", run: []string{"PROBE", "env"}, with: `"env":{"https_proxy":"http://192.0.2.1"}`, outcome: "denied command.env.https_proxy"},
	{id: "C17", what: "an ordinary variable passes, and no other comes along", run: []string{"PROBE", "env"}, with: `"env":{"SETTING":"1"}`,
		stderr: "HOME=/work\nLANG=C.UTF-8\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nSETTING=1\nTMPDIR=/tmp\n"},
}

// fileRows are what group F says of the child's surroundings. What it says of the socket, of file operations and of the read-back itself isn't
// a request: elsewhere_test.go names the tests.
var fileRows = []row{
	{id: "F6", what: "an abstract socket outside", beside: true, try: `
		connect-unix ABSTRACT            → ECONNREFUSED or EPERM
		connect-unix @no-such            → ECONNREFUSED or EPERM
		connect-unix SOCKET              → ENOENT
		connect-unix /proc/1/root/SOCKET → ENOENT or EACCES
		connect-unix /run/sandboxd/sandboxd.sock → ENOENT
		connect-unix /run/docker.sock    → ENOENT
		connect-unix /var/run/docker.sock → ENOENT
		connect-unix /run/containerd/containerd.sock → ENOENT
		connect-unix /run/dbus/system_bus_socket → ENOENT
		connect-unix /run/systemd/private → ENOENT`, readBack: "namespaces.net root"},
	{id: "F6", what: "an abstract socket of the sandbox's own launcher is out of Landlock's scope too", needs: []feature{signalScope}, run: []string{"PROBE", "exit", "0"},
		readBack: "landlock.scope.abstract"},
	{id: "F6", what: "a network, in any way", try: `
		connect 192.0.2.1:80             → ECONNREFUSED or ENETUNREACH or EACCES (pod: EAFNOSUPPORT)
		connect 127.0.0.1:80             → ECONNREFUSED or EACCES (pod: EAFNOSUPPORT)
		connect [::1]:80                 → ECONNREFUSED or EACCES or EADDRNOTAVAIL (pod: EAFNOSUPPORT)
		fastopen 127.0.0.1:80            → ECONNREFUSED or EACCES or EOPNOTSUPP or EPERM (pod: EAFNOSUPPORT)
		udp 192.0.2.1:53                 → ECONNREFUSED or ENETUNREACH or EACCES (pod: EAFNOSUPPORT)
		resolve example.com              → ECONNREFUSED or ENETUNREACH or EACCES (pod: EAFNOSUPPORT)
		connect 169.254.169.254:80       → ECONNREFUSED or ENETUNREACH or EACCES (pod: EAFNOSUPPORT)
		bind 0.0.0.0:8080                → EACCES or done (pod: EAFNOSUPPORT)`, readBack: "namespaces.net"},
	{id: "F9", what: "magic links", beside: true, try: `
		open /proc/self/root/etc/shadow  → ENOENT or EACCES
		open /proc/1/root/etc/shadow     → ENOENT or EACCES
		open /proc/SIBLING/root/etc/shadow → ENOENT or EACCES
		open /proc/SIBLING/cwd/x         → ENOENT or EACCES
		read /proc/SIBLING/fd/0          → ENOENT or EACCES`, readBack: "root namespaces.mnt"},
	{id: "F10", what: "pipes and devices that never end, by a program inside", try: `
		open /dev/mem                    → ENOENT or EACCES
		open /dev/kmsg                   → ENOENT or EACCES
		open /dev/fuse                   → ENOENT or EACCES
		open /dev/kvm                    → ENOENT or EACCES
		open /dev/sda                    → ENOENT or EACCES
		list /sys                        → ENOENT (pod: done)`, readBack: "root"},
	{id: "F11", what: "hard links to what is shown", try: `
		link SHOW/writable               → EXDEV or EACCES or EROFS
		link SHOW/secret                 → EXDEV or EACCES or EROFS
		link /usr/bin/env                → EXDEV or EACCES or EROFS`, readBack: "landlock.fs"},
	{id: "F11", what: "moves and links between directories that can both be written", needs: []feature{refer}, try: `
		mkdir /work/a                    → done
		mkdir /work/b                    → done
		mkdir /work/a/d                  → done
		write /work/a/x                  → done
		move /work/a/x /work/b/x         → done
		link-as /work/b/x /work/a/y      → done
		move /work/a/d /work/b/d         → done
		exchange /work/a/y /work/b/d     → done
		write /tmp/x                     → done
		mkdir /tmp/a                     → done
		move /tmp/x /tmp/a/x             → done`, readBack: "landlock.fs"},
	{id: "F11", what: "nothing is moved or linked out of what is only read, or into it", try: `
		write /work/x                    → done
		move /work/x /usr/x              → EXDEV or EACCES or EROFS
		move /work/x SHOW/x              → EXDEV or EACCES or EROFS
		move SHOW/writable /work/y       → EXDEV or EACCES or EROFS
		move SHOW/writable SHOW/y        → EACCES or EROFS
		exchange SHOW/writable /work/x   → EXDEV or EACCES or EROFS
		move /work/x /.sandboxd-probe.d/x → EXDEV or EACCES or ENOENT
		move /.sandboxd-probe.d/file /work/y → EXDEV or EACCES or ENOENT
		move /.sandboxd-probe.d/dir/file /.sandboxd-probe.d/y → EXDEV or EACCES or ENOENT
		link-as /.sandboxd-probe.d/dir/file /.sandboxd-probe.d/y → EXDEV or EACCES or ENOENT`, readBack: "landlock.fs root"},
}
