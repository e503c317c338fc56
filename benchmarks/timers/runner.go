// The execution of samples, each in a process of its own.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// runner takes samples.
type runner struct {
	self    string   // path of this program
	wrapper []string // command that runs each sample, or empty
	profile string   // folder for CPU profiles of the Go peers, or empty
	netty   *jvm     // nil if Java or Maven is missing
}

// runAll takes the samples of a plan and passes each to done. It prints its progress
// to stderr.
func (r *runner) runAll(ctx context.Context, jobs []job, done func(sample) error) error {
	for i, j := range jobs {
		if j.Peer == netty && r.netty == nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%3d/%d round %d  %s %d %v  %s\n",
			i+1, len(jobs), j.Round+1, j.Spec.Work, j.Spec.Pending, j.Spec.Tick, j.Peer)
		s, err := r.retry(ctx, j)
		if err != nil {
			return err
		}
		if s.Failed != "" {
			fmt.Fprintln(os.Stderr, "        failed:", s.Failed)
		}
		if err := done(s); err != nil {
			return err
		}
	}
	return nil
}

// retry takes a sample up to three times: the machine may be too busy to schedule
// all timers before the first is due.
func (r *runner) retry(ctx context.Context, j job) (sample, error) {
	const attempts = 3
	for attempt := 1; ; attempt++ {
		v, err := r.sample(ctx, j)
		switch {
		case err != nil && j.Spec.Work == "probe" && ctx.Err() == nil:
			return sample{job: j, Failed: "no result"}, nil
		case err != nil:
			return sample{}, err
		case v[tooSlow] > 0:
			return sample{job: j, Failed: fmt.Sprintf("not scheduled in %.0f s", v[tooSlow])}, nil
		case v[tooLarge] > 0:
			return sample{job: j, Failed: fmt.Sprintf("needs over %.0f GiB", v[tooLarge])}, nil
		case v[setupDelay] > 0 && attempt < attempts:
			fmt.Fprintln(os.Stderr, "        again: scheduling the timers took too long")
		case v[setupDelay] > 0:
			return sample{job: j, Failed: "the machine was too busy"}, nil
		default:
			return sample{job: j, Values: v}, nil
		}
	}
}

// sample takes one sample in a process of its own.
func (r *runner) sample(ctx context.Context, j job) (values, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+j.Spec.For)
	defer cancel()
	command, err := r.command(j)
	if err != nil {
		return nil, err
	}
	out, err := lastLine(ctx, append(append([]string{}, r.wrapper...), command...))
	if err != nil {
		return nil, err
	}
	v := values{}
	if err := json.Unmarshal(out, &v); err != nil {
		return nil, fmt.Errorf("%v: %w in %q", j, err, out)
	}
	return v, nil
}

func (r *runner) command(j job) ([]string, error) {
	s := j.Spec.forPeer(j.Peer)
	if j.Peer == netty {
		return r.netty.args(s), nil
	}
	data, err := json.Marshal(job{Peer: j.Peer, Spec: s})
	if err != nil {
		return nil, err
	}
	command := []string{r.self, "-sample", string(data)}
	if r.profile != "" {
		name := fmt.Sprintf("%s-%d-%v-%s.%d.prof", s.Work, s.Pending, s.Tick, j.Peer, j.Round)
		command = append(command, "-profile", filepath.Join(r.profile, name))
	}
	return command, nil
}

// takeSample runs in the process of a sample and prints the values.
func takeSample(data, profile string) error {
	var j job
	if err := json.Unmarshal([]byte(data), &j); err != nil {
		return err
	}
	p, err := peerNamed(j.Peer)
	if err != nil {
		return err
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // a bad profile must not fail the sample
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	v, err := p.run(j.Spec)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}
