package network

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

func (w *World) listen(h host, s service) error {
	at := netip.AddrPortFrom(h.address, s.port)
	plain, err := net.Listen("tcp", at.String())
	if err != nil {
		return err
	}
	listener := counting{Listener: plain, at: at, w: w}
	w.listeners = append(w.listeners, listener)
	switch s.kind {
	case lines:
		w.running.Go(func() { w.each(listener, echoLines) })
		return nil
	case database:
		w.running.Go(func() { w.each(listener, answerQueries) })
		return nil
	}
	server := &http.Server{Handler: w.handler(h), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(s.kind != tlsHTTP2)
	server.Protocols.SetHTTP2(s.kind != web)
	server.Protocols.SetUnencryptedHTTP2(s.kind == web)
	if s.kind != web {
		certificate, err := w.authority.sign(h.names)
		if err != nil {
			return err
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}}
		w.running.Go(func() { _ = server.ServeTLS(listener, "", "") })
	} else {
		w.running.Go(func() { _ = server.Serve(listener) })
	}
	w.listeners = append(w.listeners, closing{server})
	return nil
}

// closing is a server as one of the things to close.
type closing struct{ *http.Server }

func (c closing) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (c closing) Addr() net.Addr            { return nil }

// BigBytes is the length of /big, of which each host has one.
const BigBytes = 32 << 20

// handler says who was reached and how, but for what a path asks for.
func (w *World) handler(h host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(out http.ResponseWriter, request *http.Request) {
		sni := "-"
		if request.TLS != nil {
			sni = request.TLS.ServerName
		}
		fmt.Fprintf(out, "%s host=%s sni=%s %s %s\n", h.names[0], request.Host, sni, request.Proto, request.URL.Path)
	})
	mux.HandleFunc("/to-metadata", func(out http.ResponseWriter, request *http.Request) {
		http.Redirect(out, request, "http://"+Metadata.String()+"/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("/to-a", func(out http.ResponseWriter, request *http.Request) {
		http.Redirect(out, request, "https://a.example.net/redirected", http.StatusFound)
	})
	mux.HandleFunc("/big", func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Length", strconv.Itoa(BigBytes))
		block := make([]byte, 64<<10)
		for range BigBytes / len(block) {
			n, err := out.Write(block)
			w.mu.Lock()
			w.sent[h.address] += n
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	mux.HandleFunc("POST /count", func(out http.ResponseWriter, request *http.Request) {
		n, err := io.Copy(io.Discard, request.Body)
		fmt.Fprintln(out, n, err)
	})
	mux.Handle("/"+repository+"/", w.gitHandler())
	return mux
}

// each serves each connection of a listener until that is closed.
func (w *World) each(listener net.Listener, serve func(net.Conn)) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		// Not waited for: a client that stays would keep the test from its end.
		go func() {
			defer conn.Close()
			serve(conn)
		}()
	}
}

// echoLines is a protocol in which the server speaks first.
func echoLines(conn net.Conn) {
	fmt.Fprintln(conn, "hello")
	for in := bufio.NewScanner(conn); in.Scan(); {
		fmt.Fprintln(conn, in.Text())
	}
}
