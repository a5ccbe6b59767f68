import Model
import Testing

@testable import LoadGenerator

@Suite("Event scanner")
struct EventScannerTests {
    private func scan(_ text: String, pieces: Int) -> (numbers: [Int], others: Int) {
        var scanner = EventScanner()
        var numbers: [Int] = []
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: pieces) {
            bytes[start..<min(start + pieces, bytes.count)].withUnsafeBytes {
                scanner.scan($0, into: &numbers)
            }
        }
        return (numbers, scanner.others)
    }

    static let stream = """
        : listening

        id: a.1
        event: message
        data: {"messageId":"1","data":{"n":"0000000007","pad":"n"}}

        : keep-alive

        event: deleted_messages
        data: {}

        data: {"n":"8"}

        event: message
        id: a.3

        event:message
        data:{"no":"number"}


        """

    @Test("finds messages and their numbers wherever the bytes are cut", arguments: 1...60)
    func cut(pieces: Int) {
        let found = scan(Self.stream, pieces: pieces)
        #expect(found.numbers == [7, 8, EventScanner.unnumbered])
        #expect(found.others == 1)
    }

    @Test("reads lines that end with CR LF", arguments: [1, 2, 3, 1000])
    func carriageReturns(pieces: Int) {
        let text = Self.stream.split(separator: "\n", omittingEmptySubsequences: false).joined(
            separator: "\r\n")
        #expect(scan(text, pieces: pieces).numbers == [7, 8, EventScanner.unnumbered])
    }

    @Test(
        "takes no number that is none",
        arguments: [#""n":"""#, #""n":"x1""#, #""n":"#, #""n":"1234567890123456""#])
    func numbers(text: String) {
        #expect(scan("data: {\(text)}\n\n", pieces: 1000).numbers == [EventScanner.unnumbered])
    }

    @Test("survives any bytes", arguments: 1...20 as ClosedRange<UInt64>)
    func noise(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let alphabet = Array("\n\r:dataevent message\"n1".utf8)
        var scanner = EventScanner()
        var numbers: [Int] = []
        for _ in 0..<500 {
            let count = Int.random(in: 0..<40, using: &random)
            let bytes = (0..<count).map { _ in alphabet.randomElement(using: &random) ?? 0 }
            bytes.withUnsafeBytes { scanner.scan($0, into: &numbers) }
        }
        #expect(numbers.count <= 500 * 40)
    }
}

@Suite("What peers speak")
struct PeerWireTests {
    @Test("the chunked coding comes off wherever the bytes are cut", arguments: 1...40)
    func chunks(pieces: Int) {
        let coded = Array("4\r\nWiki\r\nA;x=y\r\n0123456789\r\n1\r\n\n\r\n".utf8)
        var reader = ChunkReader()
        var out: [UInt8] = []
        for start in stride(from: 0, to: coded.count, by: pieces) {
            let isSane = coded[start..<min(start + pieces, coded.count)].withUnsafeBytes { bytes in
                reader.read(bytes) { out.append(contentsOf: $0) }
            }
            #expect(isSane)
        }
        #expect(out == Array("Wiki0123456789\n".utf8))
    }

    @Test("a broken chunked coding is refused", arguments: ["x\r\n", "1\r\nab", "FFFFFFFFFFFFFFFF\r\n"])
    func brokenChunks(text: String) {
        var reader = ChunkReader()
        #expect(!Array(text.utf8).withUnsafeBytes { reader.read($0) { _ in } })
    }

    @Test("redis replies are read whole or not at all")
    func redis() {
        let text =
            "+OK\r\n:12\r\n-ERR no\r\n*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
        let bytes = Array(text.utf8)
        for end in 0...bytes.count {
            bytes[..<end].withUnsafeBytes { cut in
                var reader = RedisReader(cut)
                var payloads: [String?] = []
                var errors = 0
                while let reply = reader.next() {
                    payloads.append(reply.payload.map { String(decoding: $0, as: UTF8.self) })
                    if reply.isError { errors += 1 }
                }
                #expect(!reader.isBroken)
                #expect(payloads == Array([nil, nil, nil, "hi", nil].prefix(payloads.count)))
                if end == bytes.count { #expect(payloads.count == 5 && errors == 1) }
            }
        }
    }

    @Test("what is no redis reply is noticed")
    func redisNoise() {
        Array("HTTP/1.1 400\r\n".utf8).withUnsafeBytes {
            var reader = RedisReader($0)
            #expect(reader.next() == nil && reader.isBroken)
        }
    }

    @Test("a process's name may hold anything")
    func stat() {
        let line = "42 (a) b (c)) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 100 0 0"
        #expect(ServerProcess.ticks(in: line) == 300)
        #expect(ServerProcess.ticks(in: "42 (a") == nil && ServerProcess.ticks(in: "42 (a) S") == nil)
        #expect(ServerProcess.kibibytes(of: "VmRSS:", in: "Name:\ta\nVmRSS:\t   1234 kB\n") == 1234)
    }
}

@Suite("Loads")
struct LoadTests {
    @Test(
        "the sent body has the size that was asked for, and is what the target says",
        arguments: [250, 313, 1000])
    func body(count: Int) {
        #expect(Target.sendBody(topic: "t", count: count).count == count)
    }

    @Test("a numbered message is found again by its number")
    func numbered() {
        Array(Target.numbered(1234, padding: 5).utf8).withUnsafeBytes {
            #expect(EventScanner.number(in: $0) == 1234)
        }
    }

    @Test("a fill gives each topic its size, each device once")
    func fill() {
        var load = FillLoad()
        load.devices = 5000
        load.topics = 50
        load.subscriptions = 20_000
        var members: [String: Set<Int>] = [:]
        var total = 0
        for batch in FillPlan(load) {
            #expect((1...Batch.devicesMax).contains(batch.count))
            for index in 0..<batch.count {
                members[batch.topic, default: []].insert((batch.first + index * batch.stride) % load.devices)
            }
            total += batch.count
        }
        #expect(members.count == 50)
        #expect(members.values.reduce(0) { $0 + $1.count } == total)
        #expect(load.sizes().reduce(0, +) == total && abs(total - 20_000) < 50)
        #expect(members["fill-0"]?.count == load.sizes()[0])
    }

    @Test("steps of a batch visit each device once", arguments: [1, 2, 3, 10, 999, 1000, 100_000])
    func stride(count: Int) {
        let step = SubscribeLoad.stride(count)
        #expect(Set((0..<count).map { $0 * step % count }).count == count)
    }
}
