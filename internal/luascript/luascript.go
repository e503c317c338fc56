// Package luascript assembles Lua scripts from files that share functions.
//
// A file names the files that it needs in its header, the comment at its beginning:
//
//	-- requires: tokens, queue
//
// A script is the text of these files, of the files that they require, and of the file
// itself. Each file occurs once, after those that it requires and in the order of the
// list.
package luascript

import (
	"fmt"
	"strings"
)

const keyword = "-- requires:"

// Assemble returns the script whose last file is the one with the given name. The function
// read returns the text of a file. Assemble returns an error if a file cannot be read, if a
// file requires itself through others, or if a list is not in a header.
func Assemble(name string, read func(name string) (string, error)) (string, error) {
	a := assembler{read: read, state: make(map[string]state)}
	if err := a.add(name); err != nil {
		return "", fmt.Errorf("luascript: %w", err)
	}
	return a.script.String(), nil
}

type assembler struct {
	read   func(name string) (string, error)
	state  map[string]state
	script strings.Builder
}

type state int

const (
	unread   state = iota
	open           // its requirements are being added
	complete       // it is part of the script
)

func (a *assembler) add(name string) error {
	switch a.state[name] {
	case complete:
		return nil
	case open:
		return fmt.Errorf("%s requires itself", name)
	}
	a.state[name] = open
	text, err := a.read(name)
	if err != nil {
		return err
	}
	required, err := requirements(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, other := range required {
		if err := a.add(other); err != nil {
			return fmt.Errorf("%s requires %q: %w", name, other, err)
		}
	}
	a.state[name] = complete
	a.script.WriteString(text)
	return nil
}

// requirements returns the names in the header of a file.
func requirements(text string) ([]string, error) {
	var names []string
	header, lists := true, 0
	for line := range strings.Lines(text) {
		header = header && strings.HasPrefix(line, "--")
		list, found := strings.CutPrefix(line, keyword)
		if !found {
			continue
		}
		if lists++; !header || lists > 1 {
			return nil, fmt.Errorf("%q: want one list, in the header", strings.TrimSpace(line))
		}
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name == "" {
				return nil, fmt.Errorf("%q: empty name", strings.TrimSpace(line))
			}
			names = append(names, name)
		}
	}
	return names, nil
}
