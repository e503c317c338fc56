// The figures of both engines with different numbers of leases.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// scaleResults are the figures of our engines with different numbers of leases. Each
// number is held by one process.
type scaleResults struct {
	setup
	Points []scalePoint
}

// scalePoint is an engine with a number of leases.
type scalePoint struct {
	Engine string
	Leases int
	figures
}

// runScale measures our engines with each of the numbers of leases.
func (c config) runScale(ctx context.Context, out, progress io.Writer) error {
	r, failed, err := c.scaleResults(ctx, progress)
	if err != nil {
		return err
	}
	if c.json != "" && c.print == "" {
		if err := bench.Save(c.json, r); err != nil {
			return err
		}
	}
	if _, err := io.WriteString(out, "\n"+r.report()); err != nil {
		return err
	}
	if c.docs != "" {
		failed = errors.Join(failed, r.document(c.docs))
	}
	return failed
}

// scaleResults reads the results from a file, or measures them. failed tells which
// points could not be measured.
func (c config) scaleResults(ctx context.Context, progress io.Writer) (r *scaleResults, failed, err error) {
	if c.print != "" {
		r, err = load[scaleResults](c.print)
		return r, nil, err
	}
	r = new(scaleResults)
	if r.setup, err = newSetup(ctx, c.plan); err != nil {
		return nil, nil, err
	}
	for _, n := range c.counts {
		p := c.plan
		p.leases = n
		idle, err := p.idle(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, engine := range []candidate{wheelEngine, heapEngine} {
			began := time.Now()
			fmt.Fprintf(progress, "%s, %d leases ...", engine.name, n)
			f, err := p.hold(ctx, target{candidate: engine}, idle)
			switch {
			case ctx.Err() != nil:
				return r, errors.Join(failed, errInterrupted), nil
			case err != nil:
				failed = errors.Join(failed, fmt.Errorf("%s, %d leases: %w", engine.name, n, err))
				fmt.Fprintln(progress, " failed:", err)
				continue
			}
			fmt.Fprintf(progress, " %v\n", time.Since(began).Round(time.Second))
			r.Points = append(r.Points, scalePoint{engine.name, n, f})
		}
	}
	return r, failed, nil
}

// point returns the figures of an engine with a number of leases.
func (r *scaleResults) point(engine string, leases int) (figures, bool) {
	for _, p := range r.Points {
		if p.Engine == engine && p.Leases == leases {
			return p.figures, true
		}
	}
	return figures{}, false
}

// counts returns the numbers of leases in ascending order.
func (r *scaleResults) counts() []int {
	var all []int
	for _, p := range r.Points {
		if len(all) == 0 || all[len(all)-1] != p.Leases {
			all = append(all, p.Leases)
		}
	}
	return all
}

// report returns the tables in Markdown.
func (r *scaleResults) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Locks of %v s in one process, each renewed every %.3g s, measured for %v s. %v\n\n", r.TTL, r.TTL/3, r.Window, r.setup)
	t := bench.Table{{
		"leases", "engine", "renewals/s", "client CPU, µs", "redis CPU, µs", "late p99, ms", "RSS per lease, B", "goroutines",
	}}
	for _, p := range r.Points {
		t = append(t, []string{
			fmt.Sprint(p.Leases), p.Engine, fmt.Sprintf("%.0f", p.Rate), fmt.Sprintf("%.2f", p.ClientCPU), fmt.Sprintf("%.2f", p.RedisCPU),
			fmt.Sprintf("%.0f", p.LateP99), fmt.Sprintf("%.0f", p.RSSPerLease), fmt.Sprint(p.Goroutines),
		})
	}
	b.WriteString(t.String() + "\n")
	b.WriteString(r.goals().Goals())
	return b.String()
}

// The goal of the cost of a renewal: at scaleTop it is at most scaleGrowth times that
// at scaleBase.
const (
	scaleBase   = 10_000
	scaleTop    = 1_000_000
	scaleGrowth = 1.15
)

func (r *scaleResults) goals() bench.Table {
	t := bench.Table{{"goal", "wanted", wheelEngine.name, heapEngine.name}}
	growth := func(name string, get func(figures) float64) {
		cells := []string{name, fmt.Sprintf("≤ %v", scaleGrowth)}
		for _, engine := range []string{wheelEngine.name, heapEngine.name} {
			base, ok := r.point(engine, scaleBase)
			top, ok2 := r.point(engine, scaleTop)
			if !ok || !ok2 {
				cells = append(cells, none)
				continue
			}
			ratio := get(top) / get(base)
			cells = append(cells, fmt.Sprintf("%.2f%s", ratio, mark(ratio <= scaleGrowth)))
		}
		t = append(t, cells)
	}
	growth("client CPU per renewal, 1,000,000 ÷ 10,000 leases", func(f figures) float64 { return f.ClientCPU })
	growth("client + redis CPU per renewal, 1,000,000 ÷ 10,000 leases", func(f figures) float64 { return f.ClientCPU + f.RedisCPU })
	cells := []string{"leases lost", "0"}
	for _, engine := range []string{wheelEngine.name, heapEngine.name} {
		lost := 0
		for _, p := range r.Points {
			if p.Engine == engine {
				lost += p.Lost + p.Missing
			}
		}
		cells = append(cells, fmt.Sprint(lost)+mark(lost == 0))
	}
	return append(t, cells)
}

func mark(met bool) string {
	if met {
		return " ✓"
	}
	return " ✗"
}

// chart shows the CPU time of a renewal against the number of leases.
func (r *scaleResults) chart() bench.LineChart {
	c := bench.LineChart{Title: "CPU of a renewal against the number of leases (logarithmic)", Unit: "µs", XLabel: "leases in one process", Low: 0.1}
	for _, n := range r.counts() {
		c.X = append(c.X, fmt.Sprint(n))
	}
	for _, panel := range []struct {
		title string
		get   func(figures) float64
	}{
		{"client", func(f figures) float64 { return f.ClientCPU }},
		{"redis-server", func(f figures) float64 { return f.RedisCPU }},
	} {
		p := bench.Panel{Title: panel.title}
		for _, engine := range []string{wheelEngine.name, heapEngine.name} {
			s := bench.Series{Name: engine, Ours: engine == wheelEngine.name}
			for _, n := range r.counts() {
				f, ok := r.point(engine, n)
				v := panel.get(f)
				if !ok {
					v = math.NaN()
				}
				s.Values = append(s.Values, v)
			}
			p.Series = append(p.Series, s)
		}
		c.Panels = append(c.Panels, p)
	}
	return c
}

// document writes the chart and the tables into the folder of the documents.
func (r *scaleResults) document(docs string) error {
	if err := bench.WriteFile(filepath.Join(docs, "bench", "lease-scale.svg"), r.chart().SVG()); err != nil {
		return err
	}
	return bench.Document(filepath.Join(docs, bench.Page), "lease-scale", "\n"+r.report())
}
