package sample

import "testing"

func TestClamp(t *testing.T) {
	if Clamp(1, 2, 4) != 2 || Clamp(5, 2, 4) != 4 || Clamp(3, 2, 4) != 3 {
		t.Error("it does not clamp")
	}
}

func TestSum(t *testing.T) {
	if Sum(1, 20, 10, 300) != 320 {
		t.Error("it does not sum")
	}
}

func TestGreeting(t *testing.T) {
	if Greeting("you") != "Hello, you!" || Greeting("") != "Hello, " {
		t.Error("it does not greet")
	}
}
