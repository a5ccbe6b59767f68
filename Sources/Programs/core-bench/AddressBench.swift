import Glibc
import Model
import Partitions

// What a million devices' addresses at a Web Push service cost beside the devices themselves.

extension CoreBench {
    static func addresses() {
        let count = 1_000_000
        let bench = Bench()
        func request(_ request: Request, _ partition: PartitionID) {
            bench.post(.request(RequestID(gateway: bench.gateway, number: 1), request), partition)
        }
        for number in 0..<count {
            request(
                .register(project: bench.project, limit: .max, nonce: 1, secret: UInt64(number)),
                PartitionID(UInt16(number % bench.count)))
            if number % 1000 == 999 { bench.turn() }
        }
        bench.settle()
        let devices = bench.devices
        let before = residentBytes()
        var random = SystemRandomNumberGenerator()
        func chance(_ count: Int) -> [UInt8] {
            (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        }
        var made = 0.0
        measure("store an address, and make it", count) {
            for (number, device) in devices.enumerated() {
                let begun = cpu()
                // As long as those of Google's service: 11 characters, a colon, 140 characters.
                let text = Base64URL.encode(chance(8)) + Array(":APA91b".utf8) + Base64URL.encode(chance(100))
                let address = WebAddress(
                    keyID: 7, p256dh: [4] + chance(64), auth: chance(16),
                    endpoint: "https://fcm.googleapis.com/fcm/send/" + String(decoding: text, as: UTF8.self))
                let packed = address.packed
                made += cpu() - begun
                request(
                    .setTransport(device, by: .backend, Transport(kind: .web, address: packed)),
                    device.partition)
                if number % 1000 == 999 { bench.turn() }
            }
            bench.settle()
        }
        let bytes = Double(residentBytes() - before) / Double(count)
        print(
            "making the address: \(Int(made / Double(count) * 1e9)) ns of that; resident: \(bytes) bytes each"
        )
    }

    private static func residentBytes() -> Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var (size, resident) = (0, 0)
        _ = withUnsafeMutablePointer(to: &size) { size in
            withUnsafeMutablePointer(to: &resident) { resident in
                withVaList([size, resident]) { vfscanf(file, "%ld %ld", $0) }
            }
        }
        return resident * Int(getpagesize())
    }
}
