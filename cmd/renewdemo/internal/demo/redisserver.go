// A redis-server for a proof.

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
	s, err := newRedisServer(ctx, exe)
	if err != nil {
		return "", nil, err
	}
	return s.url(), s.remove, nil
}

// redisServer is a Redis server of the demo, on a Unix socket in a temporary folder.
type redisServer struct {
	exe, dir string
	args     []string
	process  *os.Process
	ended    chan struct{} // is closed when the process has ended
}

// newRedisServer starts a server without persistence, unless args turn it on. It returns when the
// server answers.
func newRedisServer(ctx context.Context, exe string, args ...string) (*redisServer, error) {
	dir, err := os.MkdirTemp("", "renewdemo")
	if err != nil {
		return nil, err
	}
	s := &redisServer{exe: exe, dir: dir, args: args}
	if err := s.start(ctx); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *redisServer) socket() string { return filepath.Join(s.dir, "redis.sock") }

func (s *redisServer) url() string { return "unix://" + s.socket() }

// start starts the process and returns when the server answers.
func (s *redisServer) start(ctx context.Context) error {
	args := append([]string{"--port", "0", "--unixsocket", s.socket(), "--dir", s.dir, "--save", "", "--appendonly", "no"}, s.args...)
	cmd := exec.Command(s.exe, args...)
	detach(cmd) // after Ctrl-C the locks are released first
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.exe, err)
	}
	ended := make(chan struct{})
	s.process, s.ended = cmd.Process, ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	if err := answers(ctx, s.socket(), ended); err != nil {
		s.kill()
		return fmt.Errorf("start %s: %w", s.exe, err)
	}
	return nil
}

// kill ends the process as a crash does.
func (s *redisServer) kill() {
	_ = s.process.Kill()
	<-s.ended
}

// forget removes the data of a server that does not run.
func (s *redisServer) forget() error { return os.RemoveAll(filepath.Join(s.dir, "appendonlydir")) }

// remove ends the server and removes its folder.
func (s *redisServer) remove() {
	s.kill()
	_ = os.RemoveAll(s.dir)
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
