// Written by `npm run build` in packages/studio.
[
    ("index-CoE1yoTk.css", include_bytes!("index-CoE1yoTk.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-YRvd-tya.js", include_bytes!("studio-YRvd-tya.js").as_slice()),
]
