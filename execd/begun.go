package execd

import "net/http"

// BegunWriter knows whether an answer has begun, for a façade that can say no only before that.
type BegunWriter struct {
	http.ResponseWriter
	Begun bool
}

// WriteHeader begins it.
func (b *BegunWriter) WriteHeader(status int) {
	b.Begun = true
	b.ResponseWriter.WriteHeader(status)
}

func (b *BegunWriter) Write(data []byte) (int, error) {
	b.Begun = true
	return b.ResponseWriter.Write(data)
}

// Unwrap lets http.ResponseController find the connection.
func (b *BegunWriter) Unwrap() http.ResponseWriter { return b.ResponseWriter }
