package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// goClient is the test binary as a client in Go: "get URL", "dial NETWORK ADDRESS", "lookup NAME".
const goClient = "SANDBOXD_GO_CLIENT"

func runGoClient(args []string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	said, err := "", error(nil)
	switch args[0] {
	case "get":
		said, err = get(ctx, args[1])
	case "dial":
		var conn net.Conn
		start := time.Now()
		if conn, err = (&net.Dialer{}).DialContext(ctx, args[1], args[2]); err == nil {
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if _, err = conn.Write([]byte("x\n")); err == nil {
				buffer := make([]byte, 64)
				var n int
				n, err = conn.Read(buffer)
				said = string(buffer[:n])
			}
		}
		if took := time.Since(start); err != nil && took > 4*time.Second {
			said = "late"
		}
	case "lookup":
		var addresses []string
		addresses, err = (&net.Resolver{PreferGo: true}).LookupHost(ctx, args[1])
		said = fmt.Sprint(addresses)
	}
	fmt.Println(said)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return string(body), err
}
