// A redis-server of the demo.

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

// ownServer starts a redis-server if none is given and one is in PATH. It returns the server, nil if it has
// started none, and the URL of the store, "" if there is no server.
func ownServer(ctx context.Context, given string) (s *redisServer, url string, err error) {
	exe, err := exec.LookPath("redis-server")
	if given != "" || err != nil || !canStop {
		return nil, given, nil
	}
	dir, err := os.MkdirTemp("", "renewdemo")
	if err != nil {
		return nil, "", err
	}
	s = &redisServer{exe: exe, dir: dir}
	if err := s.start(ctx); err != nil {
		_ = os.RemoveAll(dir)
		return nil, "", err
	}
	return s, "unix://" + s.socket(), nil
}

// redisServer is a Redis server of the demo, on a Unix socket in a temporary folder. Killed and restarted it
// has lost nothing, because it has a log, and no fsync delays the writes to the log.
type redisServer struct {
	exe, dir string
	process  *os.Process
	ended    chan struct{} // is closed when the process has ended
}

func (s *redisServer) socket() string { return filepath.Join(s.dir, "redis.sock") }

// start starts the process and returns when the server answers.
func (s *redisServer) start(ctx context.Context) error {
	cmd := exec.Command(s.exe, "--port", "0", "--unixsocket", s.socket(), "--dir", s.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "no")
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

// remove ends the server, if there is one, and removes its folder.
func (s *redisServer) remove() {
	if s == nil {
		return
	}
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
