package opensandbox

type commands struct{}

func newCommands(int) *commands { return &commands{} }

type session struct{}
