import Model
import Partitions

/// Proofs of devices without cryptography.
final class Proofs: DeviceMACMaker, Sendable {
    static let shared = Proofs()
    func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 1) }
    func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { DeviceMAC(high: secret, low: 2) }
}
