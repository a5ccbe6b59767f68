import HTTPMessages
import NIOHTTP1

/// A request's head, checked for the demands of RFC 9112 that NIO's parser does not check.
struct HTTP1Head {
    /// The status of the answer to an invalid head.
    struct Refusal: Error {
        var status: Int
    }

    /// The request without its body.
    let request: HTTPRequest
    /// The value of `content-length`; `Int.max` if the value is larger.
    private(set) var length: Int?
    private(set) var isChunked = false
    /// Bytes of the fields as RFC 9113 §10.5.1 counts them: names, values, and 32 for each field.
    let bytes: Int
    private(set) var expectsContinue = false
    /// The request asks for another protocol.
    private(set) var isUpgrade: Bool

    init(_ head: HTTPRequestHead, _ configuration: EdgeConfiguration) throws(Refusal) {
        request = HTTPRequest(method: HTTP1Head.method(head.method), target: Array(head.uri.utf8))
        isUpgrade = head.method == .CONNECT
        let isOld = head.version == .http1_0
        bytes = head.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 32 }
        if bytes > configuration.headerBytesMax || head.headers.count > configuration.headerFieldsMax {
            throw Refusal(status: 431)
        }
        request.fields.reserve(bytes: bytes - 32 * head.headers.count, fields: head.headers.count)
        var hosts = 0
        var codings: [String] = []
        for (name, value) in head.headers {
            let lower = name.lowercased()
            request.fields.append(name: lower.utf8, value: value.utf8)
            switch lower {
            case "host":
                hosts += 1
                request.authority = Array(value.utf8)
            case "content-length": length = Int(value) ?? .max
            case "transfer-encoding": codings.append(value)
            case "expect": expectsContinue = !isOld && value.lowercased() == "100-continue"
            case "upgrade": isUpgrade = true
            default: break
            }
        }
        if let coding = codings.first {
            // One `chunked` and no other, never beside a length or in HTTP/1.0 (RFC 9112 §6.1, §6.3).
            guard codings.count == 1, !isOld, length == nil else { throw Refusal(status: 400) }
            guard coding.lowercased() == "chunked" else { throw Refusal(status: 501) }
            isChunked = true
        }
        guard hosts == 1 || (hosts == 0 && isOld), HTTP1Head.isAuthority(request.authority) else {
            throw Refusal(status: 400)
        }
        try HTTP1Head.takeOrigin(request)
    }

    /// RFC 9112 §3.2: of an absolute form the authority replaces `Host`, and the rest is the target.
    private static func takeOrigin(_ request: HTTPRequest) throws(Refusal) {
        let target = request.target
        if target.first == UInt8(ascii: "/") || request.method == .other("CONNECT") { return }
        if target == [UInt8(ascii: "*")], request.method == .options { return }
        let lower = target.prefix(8).map { $0 | 0x20 }
        let scheme = lower == Array("https://".utf8) ? 8 : lower.starts(with: "http:/".utf8) ? 7 : 0
        guard scheme > 0, target.count > scheme, target[scheme - 1] == UInt8(ascii: "/") else {
            throw Refusal(status: 400)
        }
        let rest = target[scheme...]
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? target.count
        request.authority = Array(target[scheme..<end])
        guard !request.authority.isEmpty, isAuthority(request.authority) else { throw Refusal(status: 400) }
        let path = Array(target[end...])
        request.target = path.first == UInt8(ascii: "/") ? path : [UInt8(ascii: "/")] + path
    }

    /// A name or an address, and perhaps a port (RFC 9110 §7.2): no userinfo, no path, no blank.
    static func isAuthority(_ text: some Collection<UInt8>) -> Bool {
        text.allSatisfy { byte in
            switch byte {
            case 0...0x20, 0x7F: false
            case UInt8(ascii: "@"), UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"),
                UInt8(ascii: "\\"), UInt8(ascii: ","), UInt8(ascii: "<"), UInt8(ascii: ">"):
                false
            default: true
            }
        }
    }

    private static func method(_ method: NIOHTTP1.HTTPMethod) -> HTTPMessages.HTTPMethod {
        switch method {
        case .GET: .get
        case .POST: .post
        case .DELETE: .delete
        case .PATCH: .patch
        case .PUT: .put
        case .HEAD: .head
        case .OPTIONS: .options
        default: .other(method.rawValue)
        }
    }
}
