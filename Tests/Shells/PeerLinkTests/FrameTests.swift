import Bytes
import Model
import NIOCore
import Testing

@testable import PeerLink

@Suite("A frame") struct FrameTests {
    private func whole(_ kind: Frame.Kind, _ payload: [UInt8]) -> ByteBuffer { RawPeer.frame(kind, payload) }

    private static func noise(_ size: Int, _ random: inout SeededGenerator) -> [UInt8] {
        (0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    private static func talk(_ size: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        var number = 0
        while bytes.count < size {
            bytes += Array("{\"topic\":\"news\",\"number\":\(number)}".utf8)
            number += 1
        }
        return Array(bytes[..<size])
    }

    @Test("is read as it was written, also byte by byte")
    func byteByByte() throws {
        var random = SeededGenerator(seed: 1)
        var stream = ByteBuffer()
        var sent: [[UInt8]] = []
        for size in [0, 1, 100, Frame.packBytesMin - 1, Frame.packBytesMin, 70_000] {
            for payload in [FrameTests.noise(size, &random), FrameTests.talk(size)] {
                sent.append(payload)
                Frame.write(.data, payload, in: .greeting, to: &stream)
            }
        }
        var arrived = ByteBuffer()
        var found: [[UInt8]] = []
        while let byte: UInt8 = stream.readInteger() {
            arrived.writeInteger(byte)
            // A frame that has not come whole gives nothing yet.
            while let frame = try Frame.read(from: &arrived, in: .greeting) { found.append(frame.payload) }
        }
        #expect(found == sent && arrived.readableBytes == 0)
    }

    @Test("is packed where that gains, and not otherwise")
    func gains() {
        var random = SeededGenerator(seed: 2)
        let (small, large) = (FrameTests.talk(Frame.packBytesMin - 1), FrameTests.talk(Frame.packBytesMin))
        #expect(whole(.data, large).readableBytes < large.count / 2)
        #expect(whole(.data, small).readableBytes == Frame.headerBytes + small.count)
        let noise = FrameTests.noise(50_000, &random)
        #expect(whole(.data, noise).readableBytes == Frame.headerBytes + noise.count)
    }

    @Test(
        "is an error or waits for more with any bit flipped",
        arguments: [FrameTests.talk(30), FrameTests.talk(Frame.packBytesMin)])
    func flippedBits(_ payload: [UInt8]) {
        let good = whole(.data, payload)
        for index in 0..<good.readableBytes {
            for bit in 0..<8 {
                var bad = good
                let byte: UInt8 = bad.getInteger(at: index) ?? 0
                bad.setInteger(byte ^ 1 << UInt8(bit), at: index)
                let frame = try? Frame.read(from: &bad, in: .greeting)
                #expect((frame ?? nil) == nil, "byte \(index)")
            }
        }
    }

    /// A hostile peer sends right checksums.
    @Test("is an error where it does not unpack, also under a right checksum")
    func badPacking() {
        func packed(_ stored: [UInt8]) -> Result<[UInt8]?, Frame.Fault> {
            let head: [UInt8] = [1, Frame.Kind.data.rawValue, 1, 0]
            var buffer = ByteBuffer()
            buffer.writeInteger(UInt32(Frame.headerBytes - 4 + stored.count), endianness: .little)
            buffer.writeBytes(head)
            buffer.writeInteger(Checksum.of(stored, seed: 0x0001_0201), endianness: .little)
            buffer.writeBytes(stored)
            do throws(Frame.Fault) {
                return .success(try Frame.read(from: &buffer, in: .greeting)?.payload)
            } catch {
                return .failure(error)
            }
        }
        func length(_ count: UInt32) -> [UInt8] {
            (0..<4).map { UInt8(truncatingIfNeeded: count >> ($0 * 8)) }
        }
        let payload = FrameTests.talk(9_000)
        guard let good = LZ4.packWithLength(payload, atMost: payload.count) else {
            Issue.record("does not pack")
            return
        }
        #expect(packed(good) == .success(payload))
        for count in [0, 3, 4, 5, good.count - 1] {
            #expect(packed(Array(good[..<count])) == .failure(.packed), "cut to \(count)")
        }
        for said in [0, 8_999, 9_001, UInt32(Frame.payloadBytesMax) + 1, .max] {
            #expect(packed(length(said) + good[4...]) == .failure(.packed), "said to be \(said)")
        }
        // A short frame that claims a long payload gets no memory for it.
        #expect(packed(length(UInt32(Frame.payloadBytesMax)) + [0, 0]) == .failure(.packed))
        var random = SeededGenerator(seed: 3)
        for _ in 0..<5_000 {
            var bad = good
            for _ in 0..<4 {
                let index = Int(random.next(upperBound: UInt64(bad.count)))
                bad[index] = UInt8(truncatingIfNeeded: random.next())
            }
            // The result is another payload or an error, and never a crash.
            _ = packed(bad)
        }
    }

    @Test("is refused with the part that is not understood")
    func unknownParts() {
        func said(_ buffer: ByteBuffer, _ index: Int, _ byte: UInt8) -> String {
            var buffer = buffer
            buffer.setInteger(byte, at: index)
            do throws(Frame.Fault) {
                _ = try Frame.read(from: &buffer, in: .greeting)
                return ""
            } catch {
                return "\(error)"
            }
        }
        let frame = whole(.data, [1, 2, 3])
        #expect(said(frame, 5, 77) == "a frame of an unknown kind 77")
        #expect(said(frame, 4, 9) == "a frame of version 9 on a connection of version 1")
        #expect(said(frame, 6, 4) == "a frame with unknown flags 4")
    }

    /// A peer that has not greeted must not make a node keep megabytes.
    @Test("is small before the greeting")
    func greetingBound() throws {
        let greeting = Dialect.greeting
        var random = SeededGenerator(seed: 4)
        var large = whole(.data, FrameTests.noise(Frame.greetingBytesMax + 1, &random))
        #expect(throws: Frame.Fault.self) {
            try Frame.read(from: &large, in: greeting, payloadMax: Frame.greetingBytesMax)
        }
        #expect(try Frame.read(from: &large, in: greeting)?.payload.count == Frame.greetingBytesMax + 1)
    }
}
