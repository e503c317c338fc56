package main

import "io"

// child is the main function of a child.
func child(io.Reader, io.Writer) error { return nil }
