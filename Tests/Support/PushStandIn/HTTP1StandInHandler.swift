import NIOCore

/// The stand-in's HTTP/1.1: only what libcurl sends, a header block and a body of a known length.
final class HTTP1StandInHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let server: StandIn
    private let connection: Int
    private var received: [UInt8] = []

    init(_ server: StandIn, connection: Int) {
        self.server = server
        self.connection = connection
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += unwrapInboundIn(data).readableBytesView
        while let request = next() {
            server.note { $0.requests.append(request) }
            switch server.reply(request) {
            case .answer(let status, let fields, let body, let interim, let isCut):
                var text = interim ? "HTTP/1.1 103 Early Hints\r\nX-Interim: yes\r\n\r\n" : ""
                text += "HTTP/1.1 \(status) Because\r\nContent-Length: \(body.count + (isCut ? 1 : 0))\r\n"
                for (name, value) in fields { text += "\(name): \(value)\r\n" }
                let bytes = Array((text + "\r\n").utf8) + body
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
            case .raw(let bytes):
                context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
            case .silence, .goAway, .freeze: break
            case .reset, .resetStream: context.resetConnection()
            }
        }
    }

    private func next() -> ReceivedRequest? {
        guard let end = received.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
        let lines = String(decoding: received[..<end.lowerBound], as: UTF8.self).split(
            separator: "\r\n", omittingEmptySubsequences: false)
        var request = ReceivedRequest(connection: connection)
        for (name, value) in zip([":method", ":path"], lines[0].split(separator: " ")) {
            request.fields.append(ReceivedRequest.Field(name: name, value: String(value)))
        }
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            let value = parts.count > 1 ? String(parts[1].trimmingPrefix(" ")) : ""
            request.fields.append(ReceivedRequest.Field(name: String(parts[0]), value: value))
        }
        let count = Int(request["content-length"] ?? "0") ?? 0
        guard received.count >= end.upperBound + count else { return nil }
        request.body = Array(received[end.upperBound..<end.upperBound + count])
        received.removeFirst(end.upperBound + count)
        return request
    }
}
