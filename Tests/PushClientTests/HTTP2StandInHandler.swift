import CNghttp2
import NIOCore

/// The stand-in's HTTP/2: a server session of libnghttp2.
final class HTTP2StandInHandler: ChannelInboundHandler {
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
    private var mustReset = false
    private let connection: Int

    init(_ server: StandIn, connection: Int, streamsMax: UInt32) throws {
        self.server = server
        self.connection = connection
        // The session refers to this handler without keeping it, and lives no longer.
        nghttp2_session_server_new(&session, Self.callbacks, Unmanaged.passUnretained(self).toOpaque())
        guard let session else { throw ChannelError.ioOnClosedChannel }
        var entry = nghttp2_settings_entry(
            settings_id: Int32(bitPattern: NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
            value: streamsMax)
        nghttp2_submit_settings(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), &entry, 1)
    }

    deinit { nghttp2_session_del(session) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Array(unwrapInboundIn(data).readableBytesView)
        guard nghttp2_session_mem_recv(session, bytes, bytes.count) == bytes.count else {
            context.close(promise: nil)
            return
        }
        flush(context)
    }

    private func flush(_ context: ChannelHandlerContext) {
        guard !mustReset else { return context.resetConnection() }
        var buffer = ByteBuffer()
        var data: UnsafePointer<UInt8>?
        while true {
            let count = nghttp2_session_mem_send(session, &data)
            guard count > 0, let data else { break }
            buffer.writeBytes(UnsafeBufferPointer(start: data, count: count))
        }
        if buffer.readableBytes > 0 { context.writeAndFlush(wrapOutboundOut(buffer), promise: nil) }
    }

    private func finish(_ stream: Int32) {
        guard let request = requests.removeValue(forKey: stream) else { return }
        server.note { $0.requests.append(request) }
        switch server.reply(request) {
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
        case .silence: break
        case .reset: mustReset = true
        case .resetStream(let code):
            nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), stream, code)
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

    private static func of(_ user: UnsafeMutableRawPointer?) -> HTTP2StandInHandler? {
        user.map { Unmanaged<HTTP2StandInHandler>.fromOpaque($0).takeUnretainedValue() }
    }

    private static let readBody: nghttp2_data_source_read_callback = {
        _, stream, target, count, flags, _, user in
        guard let handler = of(user), var body = handler.bodies[stream], let target else { return 0 }
        let length = min(count, body.bytes.count - body.sent)
        for index in 0..<length { target[index] = body.bytes[body.sent + index] }
        body.sent += length
        handler.bodies[stream] = body
        if body.sent == body.bytes.count { flags?.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue }
        return length
    }

    // Safe: made once, and libnghttp2 only reads it.
    private nonisolated(unsafe) static let callbacks: OpaquePointer? = {
        var callbacks: OpaquePointer?
        nghttp2_session_callbacks_new(&callbacks)
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { _, frame, user in
            guard let handler = of(user), let stream = frame?.pointee.hd.stream_id else { return 0 }
            handler.requests[stream] = ReceivedRequest(
                connection: handler.connection, path: "", fields: [], body: [])
            return 0
        }
        nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _, frame, name, nameCount, value, valueCount, _, user in
            guard let handler = of(user), let stream = frame?.pointee.hd.stream_id else { return 0 }
            let name = String(decoding: UnsafeBufferPointer(start: name, count: nameCount), as: UTF8.self)
            let value = String(decoding: UnsafeBufferPointer(start: value, count: valueCount), as: UTF8.self)
            handler.requests[stream]?.fields.append((name, value))
            if name == ":path" { handler.requests[stream]?.path = value }
            return 0
        }
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            _, _, stream, data, count, user in
            of(user)?.requests[stream]?.body += UnsafeBufferPointer(start: data, count: count)
            return 0
        }
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { _, frame, user in
            guard let head = frame?.pointee.hd,
                head.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
            else { return 0 }
            of(user)?.finish(head.stream_id)
            return 0
        }
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { _, stream, _, user in
            of(user)?.requests[stream] = nil
            of(user)?.bodies[stream] = nil
            return 0
        }
        return callbacks
    }()
}
