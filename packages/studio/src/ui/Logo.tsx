export function Logo({ size = 20 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="2.4" strokeLinecap="round" aria-hidden className="text-accent">
      <path d="M6 3c0 6 12 6 12 12M18 3c0 3-3 4.500-6 6M6 21c0-3 3-4.500 6-6M18 21c0-2-.8-3.400-2-4.500M6 9c0-.5.100-1 .300-1.500M8 6h8M8 18h8" />
    </svg>
  );
}
