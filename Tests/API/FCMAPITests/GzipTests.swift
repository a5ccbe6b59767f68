import CZlib
import HTTPMessages
import Model
import Testing

@testable import FCMAPI

/// A gzip member as another program makes it. `flush`: ends the block after each piece of so many bytes.
private func gzip(_ content: [UInt8], level: Int32 = 6, window: Int32 = 31, flush: Int? = nil) -> [UInt8] {
    var stream = z_stream()
    deflateInit2_(
        &stream, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
        Int32(MemoryLayout<z_stream>.size))
    defer { deflateEnd(&stream) }
    var out = [UInt8](repeating: 0, count: content.count * 2 + 64 + 16 * (content.count / (flush ?? .max)))
    var content = content
    let count = content.count
    let made = content.withUnsafeMutableBufferPointer { content in
        out.withUnsafeMutableBufferPointer { out in
            stream.next_in = content.baseAddress
            stream.next_out = out.baseAddress
            stream.avail_out = UInt32(out.count)
            var given = 0
            while let flush, given + flush < count {
                stream.avail_in = UInt32(flush)
                deflate(&stream, Z_FULL_FLUSH)
                given += flush
            }
            stream.avail_in = UInt32(count - given)
            deflate(&stream, Z_FINISH)
            return out.count - Int(stream.avail_out)
        }
    }
    return Array(out.prefix(made))
}

private func gzip(_ text: String) -> [UInt8] { gzip(Array(text.utf8)) }

@Suite("A body in gzip")
struct GzipTests {
    private let harness = APIHarness()
    private let coded = [("content-encoding", "gzip"), ("access_token_auth", "true")]
    private let send = "/v1/projects/shop/messages:send"

    private func failure(_ packed: [UInt8], bytesMax: Int = 4096) -> Gzip.Failure? {
        do throws(Gzip.Failure) {
            _ = try Gzip.unpack(packed, bytesMax: bytesMax)
            return nil
        } catch { return error }
    }

    @Test("has the content that was packed, up to the bound to the byte", arguments: [0, 1, 9])
    func roundTrip(level: Int32) throws {
        var generator = SeededGenerator(seed: 7)
        for length in [0, 1, 2, 100, 4095, 4096, 40_000, 262_144] {
            let random = (0..<length).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
            for content in [random, Array(repeating: 0x61, count: length)] {
                let packed = gzip(content, level: level)
                #expect(try Gzip.unpack(packed, bytesMax: length) == content)
                #expect(try Gzip.unpack(packed, bytesMax: 262_144) == content)
                if length > 0 { #expect(failure(packed, bytesMax: length - 1) == .tooLong) }
            }
        }
    }

    @Test("that is a bomb is refused, and never unpacked past the bound")
    func bomb() {
        let bomb = gzip(Array(repeating: 0, count: 16 << 20), level: 9)
        #expect(bomb.count < 32 << 10)
        #expect(failure(bomb) == .tooLong)
        // Many members, each within the bound.
        let members = Array(repeating: gzip(Array(repeating: 0, count: 1000)), count: 5)
        #expect(failure(Array(members.joined())) == .tooLong)
    }

    @Test("is refused wherever it ends too early, and wherever a bit of what it says is wrong")
    func damaged() throws {
        let content = Array(#"{"message":{"topic":"a","data":{"k":"vvvvvvvvvvvvvvvv"}}}"#.utf8)
        for packed in [gzip(content), gzip(content, level: 0)] {
            for length in 1..<packed.count { #expect(failure(Array(packed.prefix(length))) == .truncated) }
            for bit in 0..<packed.count * 8 {
                var wrong = packed
                wrong[bit / 8] ^= 1 << UInt8(bit % 8)
                // A few bits of the header say nothing of the content: the time, and the writer's system.
                let read = try? Gzip.unpack(wrong, bytesMax: 4096)
                #expect(read == nil || read == content, "bit \(bit)")
            }
        }
        for foreign in [gzip(content, window: 15), gzip(content, window: -15), content, [0x1F, 0x8B, 9, 0]] {
            #expect(failure(foreign) == .damaged)
        }
    }

    @Test("may have several members, and nothing else behind one")
    func members() throws {
        let two = gzip(Array("ab".utf8)) + gzip([]) + gzip(Array("c".utf8), level: 0)
        #expect(try Gzip.unpack(two, bytesMax: 3) == Array("abc".utf8))
        for rest in [[0], [0, 0, 0, 0], Array("x".utf8), [0x1F, 0x8C]] as [[UInt8]] {
            #expect(failure(two + rest) == .trailing)
        }
        #expect(failure(two + [0x1F]) == .truncated)
        #expect(failure(two + [0x1F, 0x8B]) == .truncated)
    }

    @Test("may have so many blocks and members, and no more")
    func parts() throws {
        let content = Array(repeating: UInt8(1), count: 200)
        #expect(try Gzip.unpack(gzip(content, flush: 1), bytesMax: 200) == content)
        let many = Array(repeating: UInt8(1), count: Gzip.partsMax)
        #expect(failure(gzip(many, flush: 1)) == .tooManyParts)
        let empty = gzip([])
        #expect(try Gzip.unpack(Array(repeatElement(empty, count: 100).joined()), bytesMax: 1) == [])
        #expect(
            failure(Array(repeatElement(empty, count: Gzip.partsMax).joined())) == .tooManyParts)
    }

    // MARK: Over the API

    @Test("is read on every path that takes JSON or a form")
    func paths() throws {
        let sent = harness.route(.post, send, bytes: gzip(#"{"message":{"topic":"a"}}"#), headers: coded)
        #expect(sent.sent != nil)
        let batch = #"{"to":"/topics/a","registration_tokens":["\#(harness.token())"]}"#
        for name in ["gzip", "GZIP", "x-gzip"] {
            let headers = [("content-encoding", name), ("access_token_auth", "true")]
            let action = harness.route(.post, "/iid/v1:batchAdd", bytes: gzip(batch), headers: headers)
            #expect(action.change?.devices.count == 1, "\(name)")
        }
        let key = coded + [("x-goog-api-key", "tck_app")]
        // Android's installations, as its SDK sends them.
        let body = #"{"fid":"cAAAAAAAAAAAAAAAAAAAAA","appId":"1:5:android:a","authVersion":"FIS_v2"}"#
        guard
            case .operation(.register, _) = harness.route(
                .post, "/v1/projects/shop/installations", bytes: gzip(body), bearer: nil, headers: key)
        else { Issue.record("the installation was not made"); return }
        let credential = String(decoding: harness.keys.credential(secret: 99), as: UTF8.self)
        let form = "sender=\(harness.token())&X-gcm.topic=/topics/a"
        let classic = harness.route(
            .post, "/iid/register", bytes: gzip(form), bearer: nil,
            headers: coded + [("authorization", "AidLogin 1:\(credential)")])
        #expect(classic.change != nil)
        let assertion = harness.route(
            .post, "/token", bytes: gzip("grant_type=x&assertion=y"), bearer: nil, headers: coded)
        let said = object(assertion.response?.body ?? [])["error"] as? String
        #expect(said == "unsupported_grant_type")
    }

    @Test("has the bound of its path twice: packed and unpacked")
    func bounds() {
        func padded(_ length: Int) -> [UInt8] {
            gzip(#"{"message":{"topic":"a"}}"# + String(repeating: " ", count: length - 25))
        }
        #expect(harness.route(.post, send, bytes: padded(65_536), headers: coded).sent != nil)
        let long = harness.route(.post, send, bytes: padded(65_537), headers: coded).response
        let said = error(long)
        #expect(said.http == 413 && said.status == "INVALID_ARGUMENT" && said.fcm == "INVALID_ARGUMENT")
        let key = coded + [("x-goog-api-key", "tck_app")]
        let installations = harness.route(
            .post, "/v1/projects/shop/installations",
            bytes: gzip("{}" + String(repeating: " ", count: 4095)), bearer: nil, headers: key)
        #expect(error(installations.response).http == 413)
    }

    @Test(
        "that cannot be read is refused with a sentence that says why",
        arguments: [
            ("gzip", [0x1F, 0x8B, 8, 0], 400, "The gzip body ends before its content does."),
            ("gzip", Array("{}".utf8), 400, "The gzip body is damaged, or is not gzip."),
            ("gzip", gzip("{}") + [0], 400, "The gzip body has bytes behind its content."),
            ("gzip", gzip("{}").dropLast(9) + Array(repeating: 0, count: 9), 400, "The gzip body is damaged"),
            (
                "br", Array("{}".utf8), 415,
                "The server takes no content coding but gzip, and the body has br."
            ),
            ("gzip, gzip", gzip("{}"), 415, "the body has gzip, gzip."),
            ("deflate", gzip(Array("{}".utf8), window: 15), 415, "the body has deflate."),
        ] as [(String, [UInt8], Int, String)])
    func unreadable(coding: String, body: [UInt8], status: Int, reason: String) {
        let headers = [("content-encoding", coding), ("access_token_auth", "true")]
        for path in [send, "/iid/v1:batchAdd", "/token"] {
            let response = harness.route(.post, path, bytes: body, headers: headers).response
            #expect(response?.status == status, "\(path)")
            let text = String(decoding: response?.body ?? [], as: UTF8.self)
            #expect(text.contains(reason), "\(path): \(text)")
            let takes = response?.fields.contains { $0 == ("accept-encoding", "gzip") } ?? false
            #expect(takes == (status == 415))
        }
        let twice = headers + [("content-encoding", "identity")]
        #expect(error(harness.route(.post, send, bytes: body, headers: twice).response).http == 415)
    }

    @Test("is not unpacked for a sender who may not send, and a plain body may say that it is one")
    func order() {
        let foreign = harness.route(.post, send, bytes: [1, 2, 3], bearer: "tcb_wrong", headers: coded)
        #expect(error(foreign.response).http == 401)
        let plain = [("content-encoding", "identity")]
        let body = #"{"message":{"topic":"a"}}"#
        #expect(harness.route(.post, send, body, headers: plain).sent != nil)
        #expect(error(harness.route(.post, send, "{", headers: plain).response).http == 400)
        // There is nothing to unpack.
        let empty = harness.route(
            .post, "/v1/projects/shop/installations", "", bearer: nil,
            headers: coded + [("x-goog-api-key", "tck_app")])
        guard case .operation(.register, _) = empty else { Issue.record("an empty body is refused"); return }
    }
}
