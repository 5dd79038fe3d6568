package main

import (
	"fmt"
	"net"
)

// notify tells the service manager that started us how we are, such as "READY=1" (sd_notify(3)). Without one, where NOTIFY_SOCKET isn't set, it does
// nothing. A manager that was promised a word and doesn't get it ends the service, so that an error matters.
func notify(getenv func(string) string, state string) error {
	path := getenv("NOTIFY_SOCKET") // a name that begins with @ is an abstract socket's, here as there
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	return nil
}
