package main

import (
	"net"
	"path/filepath"
	"testing"
)

func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@sandboxd-test-notify"} {
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		getenv := func(key string) string { return map[string]string{"NOTIFY_SOCKET": name}[key] }
		if err := notify(getenv, "READY=1"); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		n, err := manager.Read(got)
		if err != nil || string(got[:n]) != "READY=1" {
			t.Errorf("%s: %q, %v", name, got[:n], err)
		}
	}
	if err := notify(func(string) string { return "" }, "READY=1"); err != nil {
		t.Errorf("without a manager: %v", err)
	}
	if err := notify(func(string) string { return filepath.Join(t.TempDir(), "nobody") }, "READY=1"); err == nil {
		t.Error("a manager that isn't there got the word")
	}
}
