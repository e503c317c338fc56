package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
)

// proofServer returns the URL of the store for a proof: that of -store, or that of a Redis server
// that it starts. The URL is empty if there is neither a -store nor a redis-server in PATH.
func proofServer(ctx context.Context, flag string) (url string, stop func(), err error) {
	if flag != "" {
		return flag, func() {}, nil
	}
	exe, err := exec.LookPath("redis-server")
	if err != nil || !canStop {
		return "", func() {}, nil
	}
	return startServer(ctx, exe)
}

// startServer starts a Redis server on a Unix socket in a temporary folder. It returns when the
// server answers.
func startServer(ctx context.Context, exe string) (url string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "renewdemo")
	if err != nil {
		return "", nil, err
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(exe, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no")
	detach(cmd) // after Ctrl-C the locks are released first
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, fmt.Errorf("start %s: %w", exe, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop = func() {
		_ = cmd.Process.Kill()
		<-ended
		_ = os.RemoveAll(dir)
	}
	if err := answers(ctx, socket, ended); err != nil {
		stop()
		return "", nil, fmt.Errorf("start %s: %w", exe, err)
	}
	return "unix://" + socket, stop, nil
}

// answers waits until the server at the socket answers.
func answers(ctx context.Context, socket string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	for rdb.Ping(ctx).Err() != nil {
		select {
		case <-ended:
			return errors.New("the server has ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
