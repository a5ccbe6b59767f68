import CNghttp2
import NIOCore

/// The stand-in's HTTP/2: a server session of libnghttp2.
final class StandInHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private struct Body {
        var bytes: [UInt8]
        var isCut: Bool
        var sent = 0
    }

    private let server: StandIn
    private var session: OpaquePointer?
    private var requests: [Int32: ReceivedRequest] = [:]
    private var bodies: [Int32: Body] = [:]
    private var open: Set<Int32> = []
    private var raw: [UInt8] = []
    private var mustReset = false
    private var isRaised = false
    private var context: ChannelHandlerContext?
    private let connection: Int

    init(_ server: StandIn, connection: Int) throws {
        self.server = server
        self.connection = connection
        // The session refers to this handler without keeping it, and lives no longer.
        nghttp2_session_server_new(&session, Self.callbacks, Unmanaged.passUnretained(self).toOpaque())
        guard session != nil else { throw ChannelError.ioOnClosedChannel }
        settle([
            (NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server.options.streams),
            (NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, server.options.window),
        ])
    }

    deinit { nghttp2_session_del(session) }

    private func settle(_ values: [(nghttp2_settings_id, UInt32)]) {
        var entries = values.map {
            nghttp2_settings_entry(settings_id: Int32(bitPattern: $0.0.rawValue), value: $0.1)
        }
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entries, entries.count)
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        flush()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Array(unwrapInboundIn(data).readableBytesView)
        guard nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count else {
            context.close(promise: nil)
            return
        }
        flush()
    }

    private func flush() {
        guard let context else { return }
        guard !mustReset else { return context.resetConnection() }
        var buffer = ByteBuffer()
        var data: UnsafePointer<UInt8>?
        while true {
            let count = nghttp2_session_mem_send(session, &data)
            guard count > 0, let data else { break }
            buffer.writeBytes(UnsafeBufferPointer(start: data, count: count))
        }
        buffer.writeBytes(raw)
        raw = []
        if buffer.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
        let isOver = nghttp2_session_want_read(session) == 0 && nghttp2_session_want_write(session) == 0
        if isOver { context.close(promise: nil) }
    }

    // MARK: Commands

    func allow(_ streams: UInt32) {
        settle([(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams)])
        flush()
    }

    /// Answers requests that have had none so far.
    func answerAll(_ status: Int) {
        for stream in open.sorted() { answer(stream, .answer(status)) }
        flush()
    }

    private func goAway(_ reason: String?, last: Int32) {
        let data = reason.map { Array("{\"reason\":\"\($0)\"}".utf8) } ?? []
        nghttp2_submit_goaway(
            session, UInt8(NGHTTP2_FLAG_NONE.rawValue), last, NGHTTP2_NO_ERROR.rawValue, data, data.count)
    }

    // MARK: Requests

    private func finish(_ stream: Int32) {
        guard let request = requests.removeValue(forKey: stream) else { return }
        server.note { $0.requests.append(request) }
        answer(stream, server.reply(request))
    }

    private func answer(_ stream: Int32, _ reply: Reply) {
        switch reply {
        case .answer(let status, let fields, let body, let interim, let isCut):
            if interim {
                Self.with([(":status", "103"), ("x-interim", "yes")]) { list in
                    _ = nghttp2_submit_headers(
                        session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, nil, list.baseAddress, list.count,
                        nil)
                }
            }
            bodies[stream] = Body(bytes: body, isCut: isCut)
            var provider = nghttp2_data_provider()
            provider.read_callback = Self.readBody
            Self.with([(":status", "\(status)")] + fields) { list in
                _ = nghttp2_submit_response(session, stream, list.baseAddress, list.count, &provider)
            }
            if status == 200, !isRaised, let raised = server.options.raised {
                isRaised = true
                settle([(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, raised)])
            }
        case .silence: break
        case .cut: mustReset = true
        case .resetStream(let code):
            nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code)
        case .goAway(let reason, let isProcessed):
            goAway(reason, last: isProcessed ? stream : stream - 2)
            if isProcessed { answer(stream, .answer(200)) }
        case .raw(let bytes): raw += bytes
        case .freeze: try? context?.channel.syncOptions?.setOption(.autoRead, value: false)
        }
    }

    private static func with(
        _ fields: [(String, String)], _ body: (UnsafeMutableBufferPointer<nghttp2_nv>) -> Void
    ) {
        var bytes = fields.flatMap { Array($0.0.lowercased().utf8) + Array($0.1.utf8) }
        bytes.withUnsafeMutableBufferPointer { all in
            guard var start = all.baseAddress else { return }
            var list: [nghttp2_nv] = []
            for (name, value) in fields {
                let (nameCount, valueCount) = (name.utf8.count, value.utf8.count)
                list.append(
                    nghttp2_nv(
                        name: start, value: start + nameCount, namelen: nameCount, valuelen: valueCount,
                        flags: 0))
                start += nameCount + valueCount
            }
            list.withUnsafeMutableBufferPointer { body($0) }
        }
    }

    private static func of(_ user: UnsafeMutableRawPointer?) -> StandInHandler? {
        user.map { Unmanaged<StandInHandler>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let readBody: nghttp2_data_source_read_callback = {
        _, stream, target, count, flags, _, user in
        guard let handler = of(user), var body = handler.bodies[stream], let target else { return 0 }
        let length = min(count, body.bytes.count - body.sent)
        if length == 0, body.isCut { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
        for index in 0..<length { target[index] = body.bytes[body.sent + index] }
        body.sent += length
        handler.bodies[stream] = body
        if body.sent == body.bytes.count, !body.isCut { flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return length
    }

    // MARK: Callbacks

    private func began(_ stream: Int32) {
        open.insert(stream)
        requests[stream] = ReceivedRequest(connection: connection, stream: stream, open: open.count)
    }

    private func received(_ frame: nghttp2_frame) {
        switch UInt32(frame.hd.type) {
        case NGHTTP2_PING.rawValue where frame.hd.flags == 0: server.note { $0.pings += 1 }
        case NGHTTP2_PRIORITY.rawValue: server.note { $0.priorities += 1 }
        case NGHTTP2_RST_STREAM.rawValue: server.note { $0.resets += 1 }
        case NGHTTP2_HEADERS.rawValue:
            if frame.hd.flags & UInt8(NGHTTP2_FLAG_PRIORITY.rawValue) != 0 {
                server.note { $0.priorities += 1 }
            }
            if server.options.answersEarly { answer(frame.hd.stream_id, .answer(413)) }
        default: break
        }
        let isEnd = frame.hd.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        let type = UInt32(frame.hd.type)
        if isEnd, type == NGHTTP2_HEADERS.rawValue || type == NGHTTP2_DATA.rawValue {
            finish(frame.hd.stream_id)
        }
    }

    private func closed(_ stream: Int32) {
        open.remove(stream)
        requests[stream] = nil
        bodies[stream] = nil
    }

    // Safe: made once, and libnghttp2 only reads it.
    private nonisolated(unsafe) static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            if let stream = frame?.pointee.hd.stream_id { of(user)?.began(stream) }
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameCount, value, valueCount, flags, user in
            guard let handler = of(user), let stream = frame?.pointee.hd.stream_id else { return 0 }
            let name = String(decoding: UnsafeBufferPointer(start: name, count: nameCount), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: value, count: valueCount), as: UTF8.self)
            let isNeverIndexed = flags & UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue) != 0
            handler.requests[stream]?.fields.append(
                ReceivedRequest.Field(name: name, value: value, isNeverIndexed: isNeverIndexed))
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _, _, stream, data, count, user in
            of(user)?.requests[stream]?.body += UnsafeBufferPointer(start: data, count: count)
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            if let frame { of(user)?.received(frame.pointee) }
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, _, user in
            of(user)?.closed(stream)
            return 0
        }
        return callbacks
    }()
}
