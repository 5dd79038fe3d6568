package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd"
)

func (p *program) serve(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var (
		where   place
		allow   list
		binders list
		format  string
		level   slog.Level
		foreign facades
		joined  attach
		told    eventsFlags
		tuned   = execd.DefaultConfig("/")
	)
	socket := flags.String("socket", defaultSocket(p.getenv), "`path` of the socket to listen on")
	tcp := flags.String("listen", "", "TCP `address` to listen on as well, such as 127.0.0.1:7780; needs --token-file (off unless given)")
	token := flags.String("token-file", "", "`path` of a file of ours, mode 0600, with the token that requests to --listen must have")
	beyond := flags.Bool("listen-beyond-loopback", false, "let --listen be an address of a network; protecting it, and the token on it, is up to you")
	foreign.register(flags)
	joined.register(flags)
	told.register(flags)
	flags.BoolVar(&tuned.Late.On, "policy-late", false, "deny everything until PUT /v1/policy, or sandboxd policy bind, gives a policy: once, for good, also when started again on the same --state")
	flags.Var(&binders, "policy-binder", "`uid` that may bind the policy of --policy-late, on the socket; again for more (our own unless given)")
	flags.Var(&allow, "allow", "`uid` that may connect; again for more (our own unless given)")
	where.registerEmbedded(flags)
	registerTuning(flags, &tuned)
	flags.Var((*prewarms)(&tuned.Prewarm), "prewarm", "`modules:number` of Python interpreters that wait for runs with these modules imported, such as json,pandas:2 or :2; again for more")
	flags.Var((*images)(&tuned.Images), "image", "`NAME=PATH` of an image that sandboxes may be made from: a root directory, an OCI layout, a saved tar, or host; again for more")
	flags.BoolVar(&tuned.AllowPull, "allow-pull", false, "let --image name an image of a registry by its digest (NAME=registry.example/app@sha256:…), which is then asked for it")
	copied := flags.Bool("audit-stdout", false, "print each line of the audit log, once the disk has it, to standard output as well; while that doesn't take it, nothing is released")
	flags.StringVar(&tuned.AuditKeyFile, "audit-key", "", "`path` of a file of ours, mode 0600, with the private key that signs the audit log's checkpoints (one of its own beside the log unless given)")
	flags.StringVar(&format, "log", "text", "log format: `text` or json")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "least severe `level` that is logged: debug, info, warn, error")
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	path, err := filepath.Abs(*socket)
	if err != nil {
		return 0, err
	}
	uids, err := parseUIDs("--allow", allow)
	if err != nil {
		return 0, err
	}
	if tuned.Late.Binders, err = parseUIDs("--policy-binder", binders); err != nil {
		return 0, err
	}
	switch {
	case tuned.Late.On && where.config.PolicyDir != "":
		return 0, errors.New("--policy and --policy-late: give one of them")
	case len(binders) > 0 && !tuned.Late.On:
		return 0, errors.New("--policy-binder needs --policy-late")
	}
	config, err := where.configure(p, tuned)
	if err != nil {
		return 0, err
	}
	config.Private = append(config.Private, path)
	if *copied {
		if config.AuditCopy, err = ownStdout(); err != nil {
			return 0, err
		}
	}
	if config.AuditKeyFile != "" {
		if config.AuditKeyFile, err = filepath.Abs(config.AuditKeyFile); err != nil {
			return 0, fmt.Errorf("--audit-key: %w", err)
		}
		config.Private = append(config.Private, config.AuditKeyFile)
	}
	if *token != "" {
		secret, err := filepath.Abs(*token)
		if err != nil {
			return 0, fmt.Errorf("--token-file: %w", err)
		}
		config.Private = append(config.Private, secret)
	}
	if config.Logger, err = p.logger(format, level); err != nil {
		return 0, err
	}
	if (*tcp == "") != (*token == "") {
		return 0, errors.New("--listen and --token-file go together: over TCP the token is all that names a caller")
	}
	if *beyond && *tcp == "" {
		return 0, errors.New("--listen-beyond-loopback needs --listen")
	}
	if err := errors.Join(foreign.configure(flags, &config), joined.configure(&config), told.configure(p.getenv, &config)); err != nil {
		return 0, err
	}
	if err := told.open(); err != nil {
		return 1, err
	}
	defer told.close()
	listen := func() ([]net.Listener, error) {
		socket, err := execd.Listen(path, uids)
		if err != nil || *tcp == "" {
			return []net.Listener{socket}, err
		}
		second, err := execd.ListenToken(*tcp, *token, *beyond)
		if err != nil {
			return nil, errors.Join(err, socket.Close())
		}
		return []net.Listener{socket, second}, nil
	}
	if err := p.listenAndServe(ctx, config, listen, &foreign); err != nil {
		return 1, err
	}
	return 0, nil
}

// listenAndServe opens the sockets last: who can connect meets a service that can work.
func (p *program) listenAndServe(ctx context.Context, config execd.Config, listen func() ([]net.Listener, error), foreign *facades) error {
	service, err := execd.New(ctx, config)
	if err != nil {
		return err
	}
	here := &embedded{service, config.StopTimeout}
	listeners, err := listen()
	if err != nil {
		return errors.Join(err, here.Close())
	}
	for _, l := range listeners {
		config.Logger.Info("listening", "network", l.Addr().Network(), "address", l.Addr().String())
	}
	return foreign.serveBeside(ctx, here, listeners, func() error { return notify(p.getenv, "READY=1") })
}

func (p *program) logger(format string, level slog.Level) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: level}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(p.stderr, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return nil, fmt.Errorf("--log %s: want text or json%s", format, hint(format, []string{"text", "json"}, "sandboxd help serve"))
}

// ownStdout is standard output by another descriptor: a write to number 1 that nobody reads ends a Go program, and an error is what is wanted.
func ownStdout() (*os.File, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("--audit-stdout: %w", err)
	}
	return os.NewFile(uintptr(fd), "standard output"), nil
}

func parseUIDs(flag string, allow list) ([]int, error) {
	var uids []int
	for _, text := range allow {
		uid, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%s %s: want a numeric uid", flag, text)
		}
		uids = append(uids, int(uid))
	}
	return uids, nil
}

// defaultSocket is where a daemon listens and where healthz asks.
func defaultSocket(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && filepath.IsAbs(dir) {
		return filepath.Join(dir, "sandboxd", "sandboxd.sock")
	}
	return "/run/sandboxd/sandboxd.sock"
}
