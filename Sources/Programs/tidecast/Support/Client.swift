import CommandOutput
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import TLS

/// An error on the way to a server, or the server's own error.
struct ClientError: Error, CustomStringConvertible {
    var description: String
    /// The HTTP status, if the server answered.
    var status: Int?
    /// The kernel's error number, if an attempt to connect failed.
    var connectError: Int32?
    init(_ description: String, status: Int? = nil, connectError: Int32? = nil) {
        self.description = description
        self.status = status
        self.connectError = connectError
    }
}

/// Speaks HTTP/1.1 to a server: over the admin socket in a data folder, or to a URL.
struct Client {
    enum Endpoint {
        case socket(path: String)
        case url(host: String, port: Int)
        case secureURL(host: String, port: Int, authorityFile: String?)
    }
    var endpoint: Endpoint
    /// Sent as `Authorization: Bearer`, if there is one.
    var token: String?

    struct Response {
        var status: Int
        var body: [UInt8]

        /// The body as a JSON object; empty if the body is no object.
        var object: [String: Any] {
            (try? JSONSerialization.jsonObject(with: Data(body))) as? [String: Any] ?? [:]
        }
    }

    /// Sends a whole request and returns the whole answer. If the status is no success, throws an error in
    /// the server's own words.
    func call(_ method: HTTPMethod, _ path: String, body: [String: Any]? = nil) throws -> Response {
        let response = try request(method, path, body: body, onChunk: nil)
        guard (200..<300).contains(response.status) else { throw refusal(response, of: path) }
        return response
    }

    /// A device key is an app's key, never a bearer.
    private var isDeviceKey: Bool {
        token.map { $0.hasPrefix("Atck_") || $0.hasPrefix("tck_") } ?? false
    }

    /// The server hides the paths below /admin from everybody who shows no bearer.
    private func isHidden(_ response: Response, _ path: String) -> Bool {
        if case .socket = endpoint { return false }
        return response.status == 404 && path.hasPrefix("/admin/") && (token == nil || isDeviceKey)
    }

    /// A 401 has one text for SDKs. A person who types a command gets the reason why the token fails.
    private func refusal(_ response: Response, of path: String) -> ClientError {
        let said = Client.failure(response)
        if isHidden(response, path) {
            let reason = isDeviceKey ? "an app's key is not enough: over" : "over"
            return ClientError(
                "\(reason) the network this command needs an operator's token (for subscriptions and quotas"
                    + " a bearer key of the project is enough): give --token-file FILE or TIDECAST_TOKEN;"
                    + " `tidecast key create --kind operator` on the server makes one", status: 404)
        }
        guard response.status == 401, said.description.contains("OAuth 2") else { return said }
        guard token != nil else {
            return ClientError(
                "the server needs a token of an operator or a bearer key of the project: give --token-file"
                    + " FILE or TIDECAST_TOKEN", status: 401)
        }
        return ClientError(
            "the server refused this token: it is neither an operator's token nor a project's bearer key, or"
                + " it has ended; `tidecast key list` on the server shows the valid ones", status: 401)
    }

    /// Reads a streaming answer: `onChunk` gets the bytes as they come, until the server ends the answer or
    /// the connection breaks.
    func stream(
        _ path: String, headers: [(String, String)], onChunk: @escaping @Sendable ([UInt8]) throws -> Void
    )
        throws
    {
        let response = try request(.GET, path, body: nil, headers: headers, onChunk: onChunk)
        guard response.status == 200 else { throw Client.failure(response) }
    }

    /// Why no server could be reached: the kernel's error for each address that was tried.
    private static func reason(_ error: any Error) -> String {
        guard let error = error as? NIOConnectionError else {
            return (error as? IOError).map { String(cString: strerror($0.errnoCode)) } ?? "\(error)"
        }
        if error.connectionErrors.isEmpty { return "the host name \(error.host) is not known" }
        var reasons: [String] = []
        for one in error.connectionErrors {
            let words = reason(one.error)
            if !reasons.contains(words) { reasons.append(words) }
        }
        return "\(error.host):\(error.port): \(reasons.joined(separator: ", "))"
    }

    /// A server without TLS answers a handshake with other bytes, which libssl takes for a version.
    fileprivate static func explained(_ error: any Error) -> any Error {
        guard let error = error as? TLSError,
            ["wrong version number", "record layer failure", "packet length too long", "http request"]
                .contains(where: error.description.contains)
        else { return error }
        return ClientError(
            "the server does not speak TLS on this port: give its TLS port, or http:// (\(error.description))"
        )
    }

    private static func failure(_ response: Response) -> ClientError {
        if let error = response.object["error"] as? [String: Any], let message = error["message"] as? String {
            return ClientError(
                Client.sentence(message, error, status: response.status), status: response.status)
        }
        if let error = response.object["error"] as? String { return ClientError(error) }
        return ClientError("the server answered with HTTP \(response.status)")
    }

    /// Everything in the server's error: the field of the request, FCM's own word, when to try again.
    private static func sentence(_ message: String, _ error: [String: Any], status: Int) -> String {
        let details = error["details"] as? [[String: Any]] ?? []
        let violations = details.flatMap { $0["fieldViolations"] as? [[String: Any]] ?? [] }
        var about = [error["status"] as? String ?? "HTTP \(status)"]
        if let code = details.lazy.compactMap({ $0["errorCode"] as? String }).first, code != about[0] {
            about.append("FcmError \(code)")
        }
        if let field = violations.first?["field"] as? String, !field.isEmpty, !message.contains(field) {
            about.append("at \(field)")
        }
        if let delay = details.lazy.compactMap({ $0["retryDelay"] as? String }).first {
            about.append("try again in \(delay)")
        }
        // Only the description has a quota's limit.
        let quotas = details.flatMap { $0["violations"] as? [[String: Any]] ?? [] }
        let message = quotas.lazy.compactMap { $0["description"] as? String }.first ?? message
        var text = "\(message) (\(about.joined(separator: ", ")))"
        for violation in violations.dropFirst() {
            text += "\n\(violation["field"] ?? ""): \(violation["description"] ?? "")"
        }
        return text
    }

    private static let patience = TimeAmount.seconds(30)
    /// When a command says that it waits.
    private static let silence = TimeAmount.seconds(3)

    private var host: String {
        switch endpoint {
        case .socket: "localhost"
        case .url(let host, let port): port == 80 ? host : "\(host):\(port)"
        case .secureURL(let host, let port, _): port == 443 ? host : "\(host):\(port)"
        }
    }

    private func request(
        _ method: HTTPMethod, _ path: String, body: [String: Any]?, headers: [(String, String)] = [],
        onChunk: (@Sendable ([UInt8]) throws -> Void)?
    ) throws -> Response {
        let bytes = try body.map { [UInt8](try JSONSerialization.data(withJSONObject: $0)) } ?? []
        var head = HTTPRequestHead(version: .http1_1, method: method, uri: path)
        head.headers.add(name: "host", value: host)
        head.headers.add(name: "content-length", value: "\(bytes.count)")
        if !bytes.isEmpty { head.headers.add(name: "content-type", value: "application/json") }
        // The version of the /admin API that this command speaks.
        if path.hasPrefix("/admin/") { head.headers.add(name: "tidecast-admin", value: "1") }
        if let token {
            if isDeviceKey {
                head.headers.add(name: "x-goog-api-key", value: token)
            } else {
                head.headers.add(name: "authorization", value: "Bearer \(token)")
            }
        }
        for (name, value) in headers { head.headers.replaceOrAdd(name: name, value: value) }
        let group = MultiThreadedEventLoopGroup.singleton
        let outgoing = head
        var tls: (context: TLSContext, host: String)?
        if case .secureURL(let host, _, let authority) = endpoint {
            tls = (try TLSContext(authorityFile: authority), host)
        }
        let secure = tls
        let done = group.any().makePromise(of: Response.self)
        let bootstrap = ClientBootstrap(group: group)
            .connectTimeout(.seconds(5))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let secure, let handler = TLSHandler(secure.context, side: .client(host: secure.host))
                    {
                        try channel.pipeline.syncOperations.addHandler(handler)
                    }
                    try channel.pipeline.syncOperations.addHTTPClientHandlers()
                    try channel.pipeline.syncOperations.addHandler(
                        ClientHandler(head: outgoing, body: bytes, onChunk: onChunk, done: done))
                }
            }
        let connected: EventLoopFuture<any Channel>
        switch endpoint {
        case .socket(let path): connected = bootstrap.connect(unixDomainSocketPath: path)
        case .url(let host, let port), .secureURL(let host, let port, _):
            connected = bootstrap.connect(host: host, port: port)
        }
        connected.whenFailure { error in
            done.fail(
                ClientError(
                    "no server answers: \(Client.reason(error))",
                    connectError: (error as? IOError)?.errnoCode))
        }
        // A client that listens waits without a limit.
        if onChunk == nil {
            let loop = done.futureResult.eventLoop
            let note = loop.scheduleTask(in: Client.silence) { Output.note("waiting for the server\n") }
            let end = loop.scheduleTask(in: Client.patience) {
                done.fail(ClientError("the server took the connection, and has not answered for 30 s"))
            }
            done.futureResult.whenComplete { _ in
                note.cancel()
                end.cancel()
            }
        }
        return try done.futureResult.wait()
    }
}

private final class ClientHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPClientResponsePart
    typealias OutboundOut = HTTPClientRequestPart

    private let head: HTTPRequestHead
    private let body: [UInt8]
    private let onChunk: (@Sendable ([UInt8]) throws -> Void)?
    private let done: EventLoopPromise<Client.Response>
    private var response = Client.Response(status: 0, body: [])
    private var isDone = false

    init(
        head: HTTPRequestHead, body: [UInt8], onChunk: (@Sendable ([UInt8]) throws -> Void)?,
        done: EventLoopPromise<Client.Response>
    ) {
        self.head = head
        self.body = body
        self.onChunk = onChunk
        self.done = done
    }

    func channelActive(context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if !body.isEmpty {
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): response.status = Int(head.status.code)
        case .body(let buffer):
            let bytes = [UInt8](buffer.readableBytesView)
            guard let onChunk, response.status == 200 else { return response.body += bytes }
            do { try onChunk(bytes) } catch { fail(error, context) }
        case .end: finish(context)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if response.status == 0 {
            fail(ClientError("the server closed the connection without an answer"), context)
        } else {
            finish(context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { fail(error, context) }

    private func finish(_ context: ChannelHandlerContext) {
        guard !isDone else { return }
        isDone = true
        done.succeed(response)
        context.close(promise: nil)
    }

    private func fail(_ error: any Error, _ context: ChannelHandlerContext) {
        guard !isDone else { return }
        isDone = true
        done.fail(Client.explained(error))
        context.close(promise: nil)
    }
}
