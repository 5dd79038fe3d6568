package opensandbox

type session struct{}
