// The HTTP server of the page.

package demo

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"
)

//go:embed page
var pageFiles embed.FS

// writeTimeout is how long a visitor may take to read what was written.
const writeTimeout = 5 * time.Second

// handler serves the page, its events, and POST /fault/{name}. Faults end with ctx.
func (p *page) handler(ctx context.Context, address string) http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // the name is a constant
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /fault/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := p.inject(ctx, r.PathValue("name")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return guard(address, http.NewCrossOriginProtection().Handler(mux))
}

// guard refuses requests of other sites. The page changes the state of this process, so no other site
// may reach it through a visitor's browser: neither by a form, nor with a name of its own that it lets
// point to this machine.
func guard(address string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !named(r.Host, address) {
			http.Error(w, "the page is at http://"+address+"/", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// named reports whether the host of a request names the address of the listener: localhost or a numeric
// address, at its port.
func named(host, address string) bool {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = host, "80"
	}
	_, own, err := net.SplitHostPort(address)
	return err == nil && port == own && (name == "localhost" || net.ParseIP(name) != nil)
}

// events sends frames as server-sent events until the visitor leaves, or does not read.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for since := 0.0; ; {
		began := time.Now()
		frame := p.feed.measure(since)
		since = frame.Now
		text, err := json.Marshal(frame)
		if err == nil {
			err = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
		}
		pause := min(max(frameInterval, measureShare*time.Since(began)), maxInterval)
		if err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-time.After(pause):
		case <-frame.urgent:
		case <-r.Context().Done():
			return
		}
	}
}
