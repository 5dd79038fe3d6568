package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// openDirectory watches before it reads, so that no edit falls between the two.
func (e *Engine) openDirectory(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if err := watchFolders(watcher, e.options.Dir); err != nil {
		return errors.Join(fmt.Errorf("policy: %w", err), watcher.Close())
	}
	next, err := e.loadDirectory(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("policy: %s: %w", e.options.Dir, err), watcher.Close())
	}
	e.active.Store(next)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop, e.stopped = stop, make(chan struct{})
	go e.watch(watching, watcher)
	return nil
}

// errUnsettled is a directory that changed while it was being tested.
var errUnsettled = errors.New("the bundle changed while it was read")

// loadDirectory reads the directory, and once more after the tests: a half-written file may well parse, so only what stood still is taken.
func (e *Engine) loadDirectory(ctx context.Context) (*generation, error) {
	src, err := readDirectory(e.options.Dir)
	if err != nil {
		return nil, err
	}
	next, err := e.load(ctx, src)
	if err != nil {
		return nil, err
	}
	again, err := readDirectory(e.options.Dir)
	if err != nil {
		return nil, err
	}
	if again.revision != src.revision {
		return nil, errUnsettled
	}
	return next, nil
}

// watch reloads when the directory has been quiet for a while after an event, and at every poll, since events can be lost.
func (e *Engine) watch(ctx context.Context, watcher *fsnotify.Watcher) {
	defer close(e.stopped)
	defer watcher.Close()
	poll := time.NewTicker(e.options.Poll)
	defer poll.Stop()
	settle := time.NewTimer(0)
	settle.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-watcher.Events:
			if event.Op != fsnotify.Chmod {
				settle.Reset(e.options.Settle)
			}
			continue
		case err := <-watcher.Errors:
			e.logger.LogAttrs(ctx, slog.LevelWarn, "policy watch", slog.Any("error", err))
		case <-settle.C:
		case <-poll.C:
		}
		if err := watchFolders(watcher, e.options.Dir); err != nil {
			e.logger.LogAttrs(ctx, slog.LevelWarn, "policy watch", slog.Any("error", err))
		}
		if failed = e.reload(ctx, failed); failed == unsettled {
			settle.Reset(e.options.Settle)
		}
	}
}

// unsettled takes the place of a digest where there is none.
const unsettled = "unsettled"

// reload activates what the directory has, if that is new and proves good. It returns the digest that was found bad, so that the same content is
// not tried at every poll.
func (e *Engine) reload(ctx context.Context, failed string) string {
	src, err := readDirectory(e.options.Dir)
	switch {
	case err != nil:
		// As a digest stands for content, so does the message for what could not be read.
		if failed != err.Error() {
			e.report(ctx, err)
		}
		return err.Error()
	case src.revision == e.active.Load().revision:
		// Nothing new, or a broken edit was taken back.
		if failed != "" {
			e.report(ctx, nil)
		}
		return ""
	case src.revision == failed:
		return failed
	}
	next, err := e.loadDirectory(ctx)
	if ctx.Err() != nil {
		return failed
	}
	if err == nil {
		e.active.Store(next)
		e.report(ctx, nil)
		return ""
	}
	e.report(ctx, err)
	if errors.Is(err, errUnsettled) {
		return unsettled
	}
	return src.revision
}

// report tells the outcome of a reload to the status, the log and whoever listens.
func (e *Engine) report(ctx context.Context, err error) {
	e.mu.Lock()
	if e.fault = ""; err != nil {
		e.fault = err.Error()
	}
	e.mu.Unlock()
	status := e.Status()
	if err != nil {
		e.logger.LogAttrs(ctx, slog.LevelError, "policy reload refused; the last good one stays",
			slog.String("revision", status.Revision), slog.String("error", status.Error))
	} else {
		e.logger.LogAttrs(ctx, slog.LevelInfo, "policy active", slog.String("revision", status.Revision))
	}
	if e.options.OnReload != nil {
		e.options.OnReload(status)
	}
}

// watchFolders adds every folder of the bundle to the watch; adding one again is harmless. Never a file: a watch on a file that is replaced dies
// without a word.
func watchFolders(watcher *fsnotify.Watcher, dir string) error {
	root, err := generationRoot(dir)
	if err != nil {
		return err
	}
	if err := watcher.Add(dir); err != nil {
		return err
	}
	return addFolders(watcher, root, 0)
}

func addFolders(watcher *fsnotify.Watcher, folder string, depth int) error {
	if depth > deepestFolder {
		return nil // Reading it says so.
	}
	if err := watcher.Add(folder); err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		if ignored(entry.Name()) {
			continue
		}
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := addFolders(watcher, name, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
