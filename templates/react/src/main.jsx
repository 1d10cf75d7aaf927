import { createRoot } from 'react-dom/client';
import { Poll } from './poll.jsx';
import './style.css';

createRoot(document.getElementById('root')).render(<Poll />);
