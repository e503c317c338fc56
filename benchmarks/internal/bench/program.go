// Package bench has the frame of the benchmark programs: flags, child processes, results, goals,
// charts and documents.
package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/internal/report"
)

// Page is the document that holds the tables of most programs.
const Page = "BENCHMARKS.md"

// Program is a benchmark command.
type Program struct {
	Name  string
	Path  string // of the file of results, seen from where make runs the program
	Quick string // what -quick measures

	// Flags adds the program's own flags, or is nil.
	Flags func(f *flag.FlagSet)

	// Plan returns what to measure, in this order, and the notes of the run. Jobs that the flags do not select are
	// left out afterwards.
	Plan func(o Options) ([]Job, map[string]string, error)

	Child    func(in io.Reader, out io.Writer) error // runs instead of Plan in a child
	Sections func() []Section
}

// Options are the flags that all programs have.
type Options struct {
	Quick bool
	Works []string // empty means all
	Only  []string // candidates; empty means all
}

// Job is the measurement of one sample.
type Job struct {
	Work, Candidate string
	Round           int
	Measure         func(ctx context.Context) (Values, error)
}

// OutcomeError is the error of a Job whose candidate has no figures although nothing has failed: if it is not installed
// or too slow, for example.
type OutcomeError string

func (o OutcomeError) Error() string { return string(o) }

// Section is the part of a document that a program writes.
type Section struct {
	Page, Name string                               // Page is "" if the section is only printed
	Report     func(r *Results) string              // "" if nothing was measured
	Charts     func(r *Results) map[string]BarChart // by the names of the files; those without bars are not written
}

// Main runs the program and returns its exit status.
func (p Program) Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if IsChild() {
		err = p.Child(os.Stdin, os.Stdout)
	} else {
		err = p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, p.Name+":", err)
		return 1
	}
	return 0
}

// Run measures what the arguments select, and saves, prints and documents the results. It goes on after the failure of
// a sample, and returns all errors.
func (p Program) Run(ctx context.Context, args []string, out, progress io.Writer) error {
	var o Options
	f := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	f.SetOutput(progress)
	f.BoolVar(&o.Quick, "quick", false, p.Quick+": less precise")
	works := f.String("work", "", "comma-separated `names` of work, or their first words (default all)")
	only := f.String("only", "", "comma-separated `names` of candidates (default all)")
	path := f.String("json", "", "`file` for the results; it keeps figures that this run does not measure (default "+p.Path+", none with -quick)")
	show := f.Bool("print", false, "do not measure; print the results in the file")
	docs := f.String("docs", "", "`folder` of the documents and charts to update")
	if p.Flags != nil {
		p.Flags(f)
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.Works, o.Only = list(*works), list(*only)
	if *path == "" && (*show || !o.Quick) {
		*path = p.Path
	}
	var r *Results
	var failed error
	if *show {
		r, failed = LoadResults(*path)
	} else {
		r, failed = p.measure(ctx, o, strings.Join(append([]string{p.Name}, args...), " "), *path, progress)
	}
	if r == nil {
		return failed
	}
	for _, s := range p.Sections() {
		text := s.Report(r)
		if text == "" {
			continue
		}
		if _, err := io.WriteString(out, "\n"+text); err != nil {
			return err
		}
		if *docs != "" && s.Page != "" {
			failed = errors.Join(failed, s.write(*docs, r, text))
		}
	}
	return failed
}

func list(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }) }

// Selects reports whether the flags select a job.
func (o Options) Selects(j Job) bool {
	begins := func(name string) bool {
		return j.Work == name || strings.HasPrefix(j.Work, name+" ") || strings.HasPrefix(j.Work, name+",")
	}
	return (len(o.Works) == 0 || slices.ContainsFunc(o.Works, begins)) && (len(o.Only) == 0 || slices.Contains(o.Only, j.Candidate))
}

// measure measures all samples of the plan. It saves the results after each of them, so that an interrupted run
// keeps them. The results are nil if the run cannot begin.
func (p Program) measure(ctx context.Context, o Options, command, path string, progress io.Writer) (*Results, error) {
	jobs, notes, err := p.Plan(o)
	if err != nil {
		return nil, err
	}
	jobs = slices.DeleteFunc(jobs, func(j Job) bool { return !o.Selects(j) })
	if len(jobs) == 0 {
		return nil, errors.New("no work and candidate match -work and -only")
	}
	var failed error
	r := &Results{Runs: []Run{newRun(command, notes)}}
	all := r
	for i, j := range jobs {
		what := j.Work + ", " + j.Candidate
		fmt.Fprintf(progress, "%d/%d %s ...", i+1, len(jobs), what)
		began := time.Now()
		v, err := j.Measure(ctx)
		if ctx.Err() != nil {
			fmt.Fprintln(progress)
			return all, errors.Join(failed, errors.New("interrupted"))
		}
		s := Sample{Round: j.Round, Work: j.Work, Candidate: j.Candidate, Values: v}
		if err != nil {
			fmt.Fprintln(progress, " failed:", err)
			s.Values, s.Failed = nil, err.Error()
			if !errors.As(err, new(OutcomeError)) {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", what, err))
			}
		} else {
			fmt.Fprintf(progress, " %v\n", time.Since(began).Round(100*time.Millisecond))
		}
		r.Samples = append(r.Samples, s)
		if path == "" {
			continue
		}
		if all, err = r.joined(path); err != nil {
			return nil, err
		}
		if err := all.Save(path); err != nil {
			return nil, err
		}
	}
	return all, failed
}

// write replaces the section in its document, between the lines "<!-- name -->" and "<!-- end of name -->", and writes
// its charts.
func (s Section) write(docs string, r *Results, text string) error {
	if s.Charts != nil {
		for name, chart := range s.Charts(r) {
			svg := chart.SVG()
			if svg == "" {
				continue
			}
			if err := WriteFile(filepath.Join(docs, "bench", name+".svg"), svg); err != nil {
				return err
			}
		}
	}
	return report.Replace(filepath.Join(docs, s.Page), s.Name, text)
}

// Sleep returns after d, or with the cause when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
