import HTTP2
import NIOCore

/// The stand-in's HTTP/2. A body's address is the number of its stream.
package final class StandInSession: HTTP2Session, ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    private struct Body {
        var bytes: [UInt8]
        var isCut: Bool
        var sent = 0
    }

    private let server: StandIn
    private var requests: [Int32: ReceivedRequest] = [:]
    private var bodies: [Int32: Body] = [:]
    private var open: Set<Int32> = []
    private var raw: [UInt8] = []
    private var mustReset = false
    private var isRaised = false
    private var context: ChannelHandlerContext?
    private let connection: Int

    init(_ server: StandIn, connection: Int) {
        self.server = server
        self.connection = connection
        super.init(
            .server,
            settings: [
                (.concurrentStreamsMax, server.options.streams), (.streamWindow, server.options.window),
            ])
    }

    package func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        flush()
    }

    package func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        do {
            try unwrapInboundIn(data).withUnsafeReadableBytes { try take($0) }
            flush()
        } catch {
            context.close(promise: nil)
        }
    }

    private func flush() {
        guard let context else { return }
        guard !mustReset else { return context.resetConnection() }
        var buffer = ByteBuffer()
        produce { buffer.writeBytes($0) }
        buffer.writeBytes(raw)
        raw = []
        if buffer.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
        if !wantsToGoOn { context.close(promise: nil) }
    }

    // MARK: Commands

    package func allow(_ streams: UInt32) {
        submit(settings: [(.concurrentStreamsMax, streams)])
        flush()
    }

    /// Answers requests that have had none so far.
    package func answerAll(_ status: Int) {
        for stream in open.sorted() { answer(stream, .answer(status)) }
        flush()
    }

    private func answer(_ stream: Int32, _ reply: Reply) {
        switch reply {
        case .answer(let status, let fields, let body, let interim, let isCut):
            if interim {
                HeaderBlock.with([(":status", "103"), ("x-interim", "yes")]) { respondInterim(stream, $0) }
            }
            bodies[stream] = Body(bytes: body, isCut: isCut)
            HeaderBlock.with([(":status", "\(status)")] + fields.map { ($0.lowercased(), $1) }) {
                respond(stream, $0, body: UnsafeMutableRawPointer(bitPattern: Int(stream)))
            }
            if status == 200, !isRaised, let raised = server.options.raised {
                isRaised = true
                submit(settings: [(.concurrentStreamsMax, raised)])
            }
        case .silence: break
        case .reset: mustReset = true
        case .resetStream(let code): reset(stream, HTTP2ErrorCode(rawValue: code))
        case .goAway(let reason, let isProcessed):
            let data = reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? []
            goAway(last: isProcessed ? stream : stream - 2, debugData: data)
            if isProcessed { answer(stream, .answer(200)) }
        case .raw(let bytes): raw += bytes
        case .freeze: try? context?.channel.syncOptions?.setOption(.autoRead, value: false)
        }
    }

    // MARK: Requests

    package override func blockBegins(_ frame: HTTP2Frame) -> HTTP2Verdict {
        open.insert(frame.stream)
        requests[frame.stream] = ReceivedRequest(
            connection: connection, stream: frame.stream, open: open.count)
        return .goOn
    }

    package override func received(_ field: HTTP2Field, of frame: HTTP2Frame) -> HTTP2Verdict {
        requests[frame.stream]?.fields.append(
            ReceivedRequest.Field(
                name: String(decoding: field.name, as: UTF8.self),
                value: String(decoding: field.value, as: UTF8.self), isNeverIndexed: field.isNeverIndexed))
        return .goOn
    }

    package override func received(_ bytes: UnsafeBufferPointer<UInt8>, of stream: Int32) {
        requests[stream]?.body += bytes
    }

    package override func received(_ frame: HTTP2Frame) -> HTTP2Verdict {
        switch frame.head.kind {
        case .ping where !frame.head.isAcknowledgement: server.note { $0.pings += 1 }
        case .priority: server.note { $0.priorities += 1 }
        case .resetStream: server.note { $0.resets += 1 }
        case .headers:
            if frame.head.hasPriority { server.note { $0.priorities += 1 } }
            if server.options.answersEarly { answer(frame.stream, .answer(413)) }
            if frame.head.isEndOfStream { finish(frame.stream) }
        case .data where frame.head.isEndOfStream: finish(frame.stream)
        default: break
        }
        return .goOn
    }

    private func finish(_ stream: Int32) {
        guard let request = requests.removeValue(forKey: stream) else { return }
        server.note { $0.requests.append(request) }
        answer(stream, server.reply(request))
    }

    package override func read(
        _ body: UnsafeMutableRawPointer, into target: UnsafeMutableBufferPointer<UInt8>
    ) -> BodyPart {
        let stream = Int32(Int(bitPattern: body))
        guard var body = bodies[stream] else { return .last(0) }
        let part = BodyPart.next(of: body.bytes, sent: &body.sent, into: target)
        bodies[stream] = body
        guard body.isCut, case .last(let count) = part else { return part }
        return count == 0 ? .later : .some(count)
    }

    package override func closed(_ stream: Int32, _ code: HTTP2ErrorCode) {
        open.remove(stream)
        requests[stream] = nil
        bodies[stream] = nil
    }
}
