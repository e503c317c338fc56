// Results: the samples of a program, their file, and the medians of their figures.

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/internal/report"
)

// Values are the figures of a sample by name.
type Values map[string]float64

// Sample is one measurement of a candidate.
type Sample struct {
	Run       int // index of Results.Runs
	Round     int `json:",omitempty"`
	Work      string
	Candidate string
	Values    Values `json:",omitempty"`
	Failed    string `json:",omitempty"` // why there are no values
}

// Run describes one run of a program.
type Run struct {
	Command string
	Machine string
	Go      string
	Load    string            // load averages of the last 1, 5 and 15 minutes, before the run
	Notes   map[string]string `json:",omitempty"` // terms, and versions of servers and peers
}

// Results are what one program has measured, in one run or in several.
type Results struct {
	Runs    []Run
	Samples []Sample
}

func newRun(command string, notes map[string]string) Run {
	return Run{Command: command, Machine: report.Machine(), Go: runtime.Version(), Load: report.Load(), Notes: notes}
}

// String returns what a reader must know to judge the figures of a run.
func (r Run) String() string {
	load := r.Load
	if load == "" {
		load = "unknown"
	}
	return fmt.Sprintf("%s, %s, load average %s before the run.", r.Machine, r.Go, load)
}

// Note returns a note of a run, with its name, or "".
func (r Run) Note(name string) string {
	if v, ok := r.Notes[name]; ok {
		return name + " " + v
	}
	return ""
}

// LoadResults reads the results in a file.
func LoadResults(path string) (*Results, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(Results)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Save writes the results to a file, with a line for each sample and five digits for each figure. It creates the
// folder of the file.
func (r *Results) Save(path string) error {
	runs, err := json.MarshalIndent(r.Runs, "", "\t")
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{\"Runs\": %s,\n\"Samples\": [", runs)
	for i, s := range r.Samples {
		s.Values = maps.Clone(s.Values)
		for name, v := range s.Values {
			s.Values[name], _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
		}
		line, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", s.Work, s.Candidate, err)
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + string(line))
	}
	b.WriteString("\n]}\n")
	return WriteFile(path, b.String())
}

// WriteFile writes text to a file. It creates the folder of the file.
func WriteFile(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// joined returns the results with those samples of the file that have not been measured again, if there is a file.
func (r *Results) joined(path string) (*Results, error) {
	before, err := LoadResults(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	all := &Results{Runs: slices.Clone(r.Runs), Samples: slices.Clone(r.Samples)}
	index := map[int]int{} // of the runs that stay
	for _, s := range before.Samples {
		if slices.ContainsFunc(r.Samples, func(now Sample) bool { return now.Work == s.Work && now.Candidate == s.Candidate }) {
			continue
		}
		if _, stays := index[s.Run]; !stays {
			index[s.Run] = len(all.Runs)
			all.Runs = append(all.Runs, before.Runs[s.Run])
		}
		s.Run = index[s.Run]
		all.Samples = append(all.Samples, s)
	}
	return all, nil
}

// Ref names a figure.
type Ref struct{ Work, Candidate, Key string }

// rounds returns a figure by round.
func (r *Results) rounds(f Ref) map[int]float64 {
	found := map[int]float64{}
	for _, s := range r.Samples {
		if v, ok := s.Values[f.Key]; ok && s.Work == f.Work && s.Candidate == f.Candidate {
			found[s.Round] = v
		}
	}
	return found
}

// Figure returns the median of a figure over the rounds.
func (r *Results) Figure(work, candidate, key string) (float64, bool) {
	return median(slices.Collect(maps.Values(r.rounds(Ref{work, candidate, key}))))
}

// Ratio returns the median over the rounds of a divided by b. Figures that differ by less than noise are equal.
func (r *Results) Ratio(a, b Ref, noise float64) (float64, bool) {
	var all []float64
	others := r.rounds(b)
	for round, x := range r.rounds(a) {
		y, ok := others[round]
		switch {
		case !ok:
		case math.Abs(x-y) < noise:
			all = append(all, 1)
		case y > 0:
			all = append(all, x/y)
		}
	}
	return median(all)
}

func median(all []float64) (float64, bool) {
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	mid := len(all) / 2
	if len(all)%2 == 1 {
		return all[mid], true
	}
	return (all[mid-1] + all[mid]) / 2, true
}

// Failure returns why a candidate has no figures of a work, or "".
func (r *Results) Failure(work, candidate string) string {
	for _, s := range r.Samples {
		if s.Failed != "" && s.Work == work && s.Candidate == candidate {
			return s.Failed
		}
	}
	return ""
}

// Measured returns those of the candidates that have figures of any of the works.
func (r *Results) Measured(candidates []string, works ...string) []string {
	return slices.DeleteFunc(slices.Clone(candidates), func(name string) bool {
		return !slices.ContainsFunc(r.Samples, func(s Sample) bool {
			return s.Candidate == name && len(s.Values) > 0 && slices.Contains(works, s.Work)
		})
	})
}

// Numbers returns the numbers that follow the name of a kind of work, in ascending order.
func (r *Results) Numbers(work string) []int {
	all := map[int]bool{}
	for _, s := range r.Samples {
		var n int
		if _, err := fmt.Sscanf(s.Work, work+" %d", &n); err == nil && len(s.Values) > 0 {
			all[n] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// RunOf returns the newest run with a sample of a work.
func (r *Results) RunOf(work string) Run {
	for _, s := range r.Samples {
		if s.Work == work {
			return r.Runs[s.Run]
		}
	}
	return Run{}
}
