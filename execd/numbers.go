package execd

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Numbers answers GET /metrics, /healthz and /readyz, and nothing else, for a listener of its own ([Mount]): who scrapes has no name that the kernel knows, and
// gets numbers with bounded labels and one word. A body isn't read.
func (s *Service) Numbers() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeWord(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if len(s.troubles()) > 0 { // what they are is for callers of the API
			writeWord(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		writeWord(w, http.StatusOK, "ok")
	})
	return mux
}

func writeWord(w http.ResponseWriter, status int, word string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(word + "\n")) // a client that has gone has no use for it
}
