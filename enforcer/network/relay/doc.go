// Package relay is the only way out of a sandbox: every TCP connection of it, wherever it was dialled to, is accepted here, judged, and carried on
// to an address that was checked.
//
//	accepted ─▶ destination (getsockname) ─▶ name or address ─▶ rules ─▶ resolve now ─▶ classify each address ─▶ dial one of those ─▶ carry
//	                                                                                                     │
//	                                    what the client says first must fit: TLS hello, HTTP heads ◀─────┘
//
// A destination that is a synthetic address stands for one name, so that a connection says which name it is for, whatever addresses that name shares
// with others. Names are resolved when they are dialled, by the daemon, and exactly the addresses that were checked are dialled: what a name
// resolved to before, or for the client, means nothing.
//
// # What the client says must fit
//
// Many names share one address, and what picks among them is what the client sends: SNI, Host, :authority. So these are read until they can't
// change any more, and must be the name that the connection is for. A connection to a literal address may claim any name that no rule denies.
//
//	TLS              the hello's server name, in however many records and segments, at most 16 KiB. After it, until the handshake can have no
//	                 second hello (HelloRetryRequest), records are looked at; a second hello must fit as well
//	  no server name refused for a name (the server would choose one), fine for an address
//	  ECH            refused, also where it is only GREASE, which can't be told apart: the true name would be hidden
//	HTTP/1           each request's head: Host once, absolute-form the same authority, and a port, when written, that of the connection. Framing
//	                 is strict (Content-Length or chunked, never both, once each, CRLF only), since what one side takes for a body the other may
//	                 take for the next request. CONNECT is refused: what is behind it could not be judged
//	  Upgrade        on the first request of a connection; what follows waits until the server has answered. After 101 bytes pass as they are, after
//	                 101 to h2c as HTTP/2, after any other answer requests go on
//	HTTP/2 in clear  :authority of each stream
//	port 443         is TLS, port 80 is HTTP or TLS; anything else there is refused
//	other ports      bytes that are neither pass as they are; the name chose the address. A server that speaks first is heard at once, and the
//	                 client's first bytes are looked at whenever they come. What a lenient server could take for HTTP is HTTP, and strict
//	PROXY protocol   refused: it tells a server to believe in another client and other first bytes
//
// What goes on inside TLS isn't seen: neither Host nor :authority in it, nor a second TLS inside of the first.
//
// # Refusing, cutting, dying
//
// Whatever is refused or cut ends in a reset, and so does everything when the daemon dies, since SO_LINGER {1,0} stands on both sockets from the start
// and is taken back only before an orderly close: an end of file always means that the other end said so.
//
// # Explicit proxy
//
// One destination, [Config.Proxy], is a proxy for clients that want one: CONNECT, and absolute-form for http. It goes the same way, and because such a
// client understands answers it gets 403 with the reason in place of a reset. One absolute-form request is served a connection.
package relay
