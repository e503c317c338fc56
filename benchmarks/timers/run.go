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
	self    string   // this program
	under   []string // a command that each sample is run under
	profile string   // folder for CPU profiles of the Go peers, or empty
	netty   *jvm     // nil if it cannot be had
}

// runAll takes the samples of a plan and tells of each on stderr.
func (r *runner) runAll(ctx context.Context, jobs []job) ([]sample, error) {
	var all []sample
	for i, j := range jobs {
		if j.Peer == netty && r.netty == nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%3d/%d round %d  %s %d %v  %s\n",
			i+1, len(jobs), j.Round+1, j.Spec.Work, j.Spec.Pending, j.Spec.Tick, j.Peer)
		v, err := r.sample(ctx, j)
		for tries := 1; err == nil && v[spoilt] > 0 && tries < 3; tries++ {
			fmt.Fprintln(os.Stderr, "        again: the machine was too busy to arm the timers in time")
			v, err = r.sample(ctx, j)
		}
		if err != nil {
			return all, err
		}
		all = append(all, sample{j, v})
	}
	return all, nil
}

// sample takes one, in a process of its own.
func (r *runner) sample(ctx context.Context, j job) (values, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute+j.Spec.For)
	defer cancel()
	command, err := r.command(j)
	if err != nil {
		return nil, err
	}
	out, err := output(ctx, append(append([]string{}, r.under...), command...))
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

// takeSample is what the process of a sample does.
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
		defer f.Close() //nolint:errcheck // the samples matter more
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
